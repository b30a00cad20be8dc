"""Recordings that are limited to a block, and limits of memory per test. HEAPWRIGHT is the path of the command."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import heapwright
from heapwright.recording import is_recorded

COMMAND = os.environ.get("HEAPWRIGHT")

PROGRAM = """
import heapwright
kept = []
def outside(): kept.append(bytearray(900_000))
def inside(): kept.append(bytearray(500_000))
outside()
with heapwright.record() as block:
    inside()
outside()
print(block.peak)
"""

TESTS = """
import pytest
import heapwright
kept = []
def grow(count): kept.append(bytearray(count))
@pytest.fixture
def large(): return bytearray(5_000_000)
@pytest.mark.heapwright(limit="1MiB")
def test_below(large): grow(500_000)
@pytest.mark.heapwright(limit="1MiB")
def test_above(): grow(2_000_000)
@pytest.mark.heapwright("2 MB")
def test_freed_at_once():
    bytearray(1_900_000)
    bytearray(1_900_000)
@pytest.mark.heapwright
def test_only_recorded(): grow(3_000_000)
def test_unmarked(): grow(4_000_000)
"""


def run(*command, folder=None):
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


class Unrecorded(unittest.TestCase):
    def test_a_block_outside_of_a_recording_is_refused(self):
        with self.assertRaisesRegex(heapwright.NotRecordedError, "start it with `heapwright record .*--marked"):
            with heapwright.record():
                self.fail("the block ran")
        self.assertFalse(is_recorded())


@unittest.skipUnless(COMMAND, "HEAPWRIGHT is not the path of the command")
class Recorded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def record(self, *options):
        arguments = ("record", "--python", "--sites=1", "--marked", "-o", "t.hwt", "--", sys.executable)
        return run(COMMAND, *arguments, *options, folder=self.folder)

    def names(self):
        shown = run(COMMAND, "sites", "t.hwt", "--json", "--limit", "0", folder=self.folder)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return {row["name"]: row["held"]["bytes"] for row in json.loads(shown.stdout)["results"]}

    def test_only_the_block_is_recorded(self):
        ended = self.record(self.write("program.py", PROGRAM))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(500_000 <= int(ended.stdout) < 600_000, ended.stdout)
        held = {name.split()[0]: size for name, size in self.names().items()}
        self.assertTrue(500_000 <= held["inside"] < 501_000, held)
        self.assertNotIn("outside", held)

    def test_limits_are_checked_per_test(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("pytest is not installed")
        path = self.write("test_limits.py", TESTS)
        options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", path)
        ended = self.record(*options)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertIn("1 failed, 4 passed", ended.stdout)
        self.assertIn("memory grew by 1.91 MiB, and the limit is 1 MiB", ended.stdout)
        names = " ".join(self.names())
        self.assertIn("grow test_limits.py", names)
        self.assertNotIn("large", names)
        plain = run(sys.executable, *options, folder=self.folder)
        self.assertEqual(plain.returncode, 0, plain.stdout)
        self.assertIn("3 limits of memory were not checked", plain.stdout)

    def test_a_limit_that_is_no_size_is_refused(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("pytest is not installed")
        test = "import pytest\n@pytest.mark.heapwright(limit='ten')\ndef test(): pass\n"
        ended = run(sys.executable, "-m", "pytest", "-q", self.write("test_wrong.py", test), folder=self.folder)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("a size such as 10MiB, not 'ten'", ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main()

"""Recordings that are limited to a block, and limits of memory per test. HEAPWRIGHT is the path of the command."""

import importlib.util
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

EXACT = """
import unittest
import pytest
kept = []
@pytest.mark.heapwright(limit=1000)
@pytest.mark.parametrize("number", range(5))
def test_empty(number): pass
@pytest.mark.heapwright(limit=100_000)
def test_above(): kept.append(bytes(100_000))
@pytest.mark.heapwright(limit=101_000)
def test_below(): kept.append(bytes(100_000))
class Cases(unittest.TestCase):
    @pytest.mark.heapwright(limit=1000)
    def test_empty(self): pass
    @pytest.mark.heapwright(limit=100_000)
    def test_above(self): kept.append(bytes(100_000))
    @pytest.mark.heapwright(limit=101_000)
    def test_below(self): kept.append(bytes(100_000))
"""

LONG_NAMES = """
import heapwright
kept = []
def methods(name):
    inner = f"Inner_{'é' * 120}"
    source = f"def {name}():\\n  class {inner}:\\n    def grow(self, count): kept.append(bytearray(count))\\n  return {inner}()"
    scope = {"kept": kept}
    exec(compile(source, "long.py", "exec"), scope)
    return scope[name]()
alpha, beta = methods("alpha"), methods("beta")
with heapwright.record():
    alpha.grow(500_000)
    beta.grow(300_000)
"""

TEST_CASES = """
import unittest
import pytest
kept = []
def grow(count): kept.append(bytearray(count))
class Large:
    def setUp(self):
        grow(2_000_000)
        self.addCleanup(grow, 2_000_000)
    def tearDown(self): grow(2_000_000)
@pytest.mark.heapwright(limit="1MiB")
class Plain(Large, unittest.TestCase):
    def test_nothing(self): pass
    def test_above(self): grow(3_000_000)
    @staticmethod
    def test_without_instance(): pass
    @unittest.expectedFailure
    def test_fails_as_expected(self): self.fail()
    @unittest.skip("not now")
    def test_skipped(self): grow(3_000_000)
@pytest.mark.heapwright(limit="1MiB")
class Async(Large, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self): grow(2_000_000)
    async def asyncTearDown(self): grow(2_000_000)
    async def test_nothing(self): pass
    async def test_above(self): grow(4_000_000)
@pytest.mark.heapwright(limit="1MiB")
class Broken(unittest.TestCase):
    def setUp(self): raise ValueError("of setUp")
    def test_never_runs(self): pass
"""


CONFTEST = """
import pytest
class CaseItem(pytest.Item):
    def runtest(self): bytearray(5_000_000)
class CaseFile(pytest.File):
    def collect(self): yield CaseItem.from_parent(self, name="case")
def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".case": return CaseFile.from_parent(parent, path=file_path)
def pytest_collection_modifyitems(items):
    for item in items: item.add_marker(pytest.mark.heapwright(limit="1MiB"))
"""

DOCTEST = '''
def example():
    """
    >>> len(bytearray(5_000_000))
    5000000
    """
'''


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

    def require(self, module):
        if importlib.util.find_spec(module) is None:
            self.skipTest(f"{module} is not installed")

    def record(self, *options):
        arguments = ("record", "--python", "--sites=1", "--marked", "-o", "t.hwt", "--", sys.executable)
        return run(COMMAND, *arguments, *options, folder=self.folder)

    def names(self):
        shown = run(COMMAND, "sites", "t.hwt", "--json", "--limit", "0", folder=self.folder)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return {row["name"]: row["held"]["bytes"] for row in json.loads(shown.stdout)["results"]}

    def stacks(self):
        options = ("--json", "--limit", "0", "--group", "stack", "--all-frames")
        shown = run(COMMAND, "sites", "t.hwt", *options, folder=self.folder)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return [" ".join(row["stack"]) for row in json.loads(shown.stdout)["results"]]

    def test_only_the_block_is_recorded(self):
        ended = self.record(self.write("program.py", PROGRAM))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(500_000 <= int(ended.stdout) < 600_000, ended.stdout)
        held = {name.split()[0]: size for name, size in self.names().items()}
        self.assertTrue(500_000 <= held["inside"] < 501_000, held)
        self.assertNotIn("outside", held)

    def test_functions_whose_long_names_end_alike_are_told_apart(self):
        ended = self.record(self.write("program.py", LONG_NAMES))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        grown = {name: size for name, size in self.names().items() if ".grow " in name}
        self.assertEqual(sorted(size // 100_000 for size in grown.values()), [3, 5], grown)
        for name in grown:
            self.assertRegex(name, "^…[0-9a-f]{8}…é+.grow long.py:3$")

    def test_limits_are_checked_per_test(self):
        self.require("pytest")
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

    def test_what_pytest_itself_takes_does_not_count(self):
        self.require("pytest")
        path = self.write("test_exact.py", EXACT)
        options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", path)
        ended = self.record(*options)
        self.assertIn("2 failed, 8 passed", ended.stdout)
        self.assertRegex(ended.stdout, r"memory grew by (1000\d\d B|97\.8 KiB), and the limit is (100000 B|97\.7 KiB)")
        for name in ("test_exact.py::test_above", "Cases::test_above"):
            self.assertIn(name, ended.stdout)

    def test_workers_say_what_they_did_not_check(self):
        self.require("xdist")
        path = self.write("test_exact.py", EXACT)
        ended = run(sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", path, folder=self.folder)
        self.assertIn("10 limits of memory were not checked", ended.stdout)

    def test_only_the_function_of_a_test_case_counts(self):
        self.require("pytest")
        path = self.write("test_cases.py", TEST_CASES)
        ended = self.record("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", path)
        self.assertIn("3 failed, 3 passed, 1 skipped, 1 xfailed", ended.stdout)
        self.assertIn("memory grew by 2.86 MiB, and the limit is 1 MiB", ended.stdout)
        self.assertRegex(ended.stdout, r"memory grew by 3\.8\d MiB, and the limit is 1 MiB")
        self.assertIn("ValueError: of setUp", ended.stdout)
        stacks = " ".join(self.stacks())
        self.assertIn("test_above test_cases.py", stacks)
        for outside in ("setUp", "tearDown", "asyncSetUp", "asyncTearDown", "doCleanups"):
            self.assertNotIn(f"{outside} ", stacks)

    def test_items_that_are_no_functions_are_said_to_be_unchecked(self):
        self.require("pytest")
        for name, text in (("conftest.py", CONFTEST), ("examples.py", DOCTEST), ("one.case", "")):
            self.write(name, text)
        ended = self.record("-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", self.folder)
        self.assertIn("2 passed", ended.stdout)
        self.assertIn("2 limits of memory were not checked; only functions are recorded", ended.stdout)

    def test_a_limit_that_is_no_size_is_refused(self):
        self.require("pytest")
        digits = "9" * 400
        limits = ["'ten'", "float('inf')", "float('nan')", "-1", "1e300", "10**400", f"'{digits}GiB'", "'9EiB'", "2**63"]
        for limit in limits:
            test = f"import pytest\n@pytest.mark.heapwright(limit={limit})\ndef test(): pass\n"
            ended = run(sys.executable, "-m", "pytest", "-q", self.write("test_wrong.py", test), folder=self.folder)
            self.assertNotEqual(ended.returncode, 0, limit)
            said = ended.stdout + ended.stderr
            self.assertIn("UsageError: a limit of heapwright is a size such as 10MiB", said)
            self.assertNotIn("OverflowError", said)


if __name__ == "__main__":
    unittest.main()

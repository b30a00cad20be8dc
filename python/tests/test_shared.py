"""Two processes and one heap: arrays, blocks, names, mutexes, deaths."""

import copy
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

import heapwright

CHILD = """
import os, signal, sys
import numpy
import heapwright
heap = heapwright.SharedHeap.open(sys.argv[1])
{}
"""


def run_child(name, code, *, killed=False):
    ended = subprocess.run([sys.executable, "-c", CHILD.format(code), name], capture_output=True, text=True)
    assert ended.returncode == (-signal.SIGKILL if killed else 0), ended.stderr
    return ended.stdout


class Shared(unittest.TestCase):
    def setUp(self):
        self.name = f"heapwright-python-{os.getpid()}-{self._testMethodName}"
        self.heap = heapwright.SharedHeap.create(self.name, max_size=64 << 20, patience=0.2)

    def tearDown(self):
        heapwright.SharedHeap.unlink(self.name)

    def test_numbers_that_c_would_cut_are_refused(self):
        with self.assertRaises(heapwright.FullError):
            self.heap.allocate(1 << 64)
        with self.assertRaises(heapwright.FullError):
            self.heap.allocate((1 << 64) + 100)
        for settings in ({"max_size": 1 << 70}, {"granule": 1 << 32}, {"processes": 1 << 32}, {"size": -1}):
            with self.assertRaises(ValueError):
                heapwright.SharedHeap.create(self.name + "-cut", **settings)

    def test_what_is_no_whole_number_is_refused(self):
        for wrong in (1.5, "5", None):
            for call in (self.heap.block, self.heap.allocate):
                with self.assertRaisesRegex(TypeError, "must be a whole number"):
                    call(wrong)
        with self.assertRaisesRegex(TypeError, "size is '1MiB'"):
            heapwright.SharedHeap.create(self.name + "-no", size="1MiB")

    def test_a_block_of_another_heap_is_refused(self):
        name = self.name + "-other"
        other = heapwright.SharedHeap.create(name, max_size=64 << 20)
        self.addCleanup(heapwright.SharedHeap.unlink, name)
        mine, foreign = self.heap.allocate(100), other.allocate(100)
        # The same offset, which names a block in each.
        self.assertEqual(mine.offset, foreign.offset)
        calls = (
            lambda: self.heap.free(foreign),
            lambda: self.heap.__setitem__("foreign", foreign),
            lambda: self.heap.set_if_absent("foreign", foreign),
        )
        for call in calls:
            with self.assertRaisesRegex(ValueError, f"one of the heap '{name}'"):
                call()
        self.assertGreaterEqual(mine.size, 100)
        self.assertNotIn("foreign", self.heap)
        with self.assertRaisesRegex(TypeError, "a block of the heap is expected"):
            self.heap.free(mine.offset)
        # The same segment, opened twice, is one heap.
        with heapwright.SharedHeap.open(self.name) as again:
            again.free(mine)

    def test_a_patience_that_is_no_time_is_refused(self):
        for patience in (-1, -0.001, float("nan")):
            with self.assertRaisesRegex(ValueError, "patience"):
                heapwright.SharedHeap.open(self.name, patience=patience)
        heapwright.SharedHeap.open(self.name, patience=float("inf")).close()

    def test_a_policy_is_a_name(self):
        with self.assertRaisesRegex(ValueError, "no such policy: 3"):
            heapwright.SharedHeap.create(self.name + "-no", policy=3)

    def test_a_type_of_arrays_adds_to_the_shape_as_in_numpy(self):
        made = self.heap.create_array("pairs", (5,), "(2,3)i4")
        self.assertEqual((made.shape, made.dtype), ((5, 2, 3), numpy.dtype("i4")))
        self.assertEqual(self.heap.array("pairs").shape, numpy.zeros((5,), "(2,3)i4").shape)

    def test_a_file_that_is_no_heap_is_not_unlinked(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"a text of some length, which is no heap" * 10)
            file.flush()
            with self.assertRaisesRegex(heapwright.Error, "not a segment"):
                heapwright.SharedHeap.unlink(file.name)
            self.assertTrue(os.path.exists(file.name))

    def test_an_array_that_cannot_be_leaves_no_name(self):
        for shape in ((1 << 40, 1 << 40), (1,) * 65, (1 << 50,)):
            with self.assertRaises((ValueError, heapwright.FullError)):
                self.heap.create_array("impossible", shape)
            self.assertNotIn("impossible", self.heap)
        self.heap.create_array("impossible", 3)

    def test_an_unknown_setting_is_named_as_one_of_create(self):
        for make in (heapwright.SharedHeap.create, heapwright.SharedHeap.open_or_create):
            with self.assertRaisesRegex(TypeError, f"{make.__name__}.*'foo'"):
                make(self.name + "-no", foo=1)

    def test_small_blocks_come_from_slabs_where_asked_for(self):
        name = self.name + "-slabs"
        with self.assertRaisesRegex(heapwright.Error, "256"):
            heapwright.SharedHeap.create(name, slabs=True, granule=512)
        with heapwright.SharedHeap.create(name, slabs=True) as heap:
            heapwright.SharedHeap.unlink(name)
            blocks = [heap.allocate(100) for _ in range(500)]
            for block in blocks:
                block.free()

    def test_a_name_is_a_string(self):
        self.assertNotIn(3, self.heap)
        for use in (lambda: self.heap[3], lambda: self.heap.array(3), lambda: self.heap.mutex(3)):
            with self.assertRaisesRegex(TypeError, "a name is a string, not int"):
                use()
        with self.assertRaises(TypeError):
            heapwright.SharedHeap.open(3)

    def test_a_length_is_an_integer(self):
        for shape in (2.5, (2, 2.0), "3"):
            with self.assertRaises(TypeError):
                self.heap.create_array("fraction", shape)
        self.assertEqual(self.heap.create_array("whole", numpy.int64(3)).shape, (3,))

    def test_a_mutex_does_not_keep_a_heap_open(self):
        with heapwright.SharedHeap.open(self.name) as heap:
            mutex = heap.mutex("m")
            with mutex:
                pass
        with self.assertRaisesRegex(ValueError, "closed"):
            mutex.lock()

    def test_a_view_at_the_end_does_not_hide_what_the_body_raised(self):
        with self.assertRaises(ZeroDivisionError):
            with heapwright.SharedHeap.open(self.name) as heap:
                view = heap.create_array("viewed", 3)
                1 / 0
        view[:] = 7
        del view
        heap.close()
        with self.assertRaisesRegex(BufferError, "a view of a block"):
            with heapwright.SharedHeap.open(self.name) as heap:
                view = heap.array("viewed")
        self.assertEqual(list(view), [7, 7, 7])

    def test_a_name_with_a_nul_is_refused(self):
        with self.assertRaises(ValueError):
            self.heap.create_array("n\0x", 3)
        with self.assertRaises(ValueError):
            heapwright.SharedHeap.create(self.name + "\0b")
        self.assertNotIn("n", self.heap)

    def test_an_array_is_no_mutex(self):
        array = self.heap.create_array("items", 10, "i8")
        with self.assertRaises(heapwright.Error):
            self.heap.mutex("items")
        self.assertEqual(self.heap.array("items").sum(), array.sum())

    def test_a_mutex_that_is_locked_twice_names_the_mutex(self):
        with self.heap.mutex("once"):
            with self.assertRaisesRegex(heapwright.LockTimeoutError, "holds the mutex already"):
                self.heap.mutex("once").lock()

    def test_an_array_is_found_by_name_in_another_process(self):
        prices = self.heap.create_array("prices", (100, 4))
        prices[:] = numpy.arange(400).reshape(100, 4)
        printed = run_child(self.name, "a = heap.array('prices'); print(a.shape, a.dtype, a.sum()); a[0, 0] = 7")
        self.assertEqual(printed, "(100, 4) float64 79800.0\n")
        self.assertEqual(prices[0, 0], 7)

    def test_an_array_survives_the_kill_of_its_writer(self):
        run_child(
            self.name,
            "a = heap.create_array('log', 1000, 'i8'); a[:] = 5; heap.allocate(300)\n"
            "os.kill(os.getpid(), signal.SIGKILL)",
            killed=True,
        )
        self.assertEqual(self.heap.array("log").sum(), 5000)
        # The block without a name is free again; the array has one.
        self.assertEqual(self.heap.reclaim(), 1)
        self.assertEqual(self.heap.array("log").sum(), 5000)

    def test_structured_and_empty_arrays(self):
        dtype = numpy.dtype([("id", "u4"), ("point", "f8", (2,)), ("inner", [("a", "i2"), ("b", "S3")])])
        made = self.heap.create_array("points", 3, dtype)
        made["point"][1] = (1, 2)
        made["inner"]["b"] = b"xyz"
        found = self.heap.array("points")
        self.assertEqual((found.dtype, found["point"].sum(), found["inner"]["b"][2]), (dtype, 3.0, b"xyz"))
        self.assertEqual(self.heap.create_array("none", (0, 5)).shape, (0, 5))
        self.assertEqual(self.heap.create_array("one", ()).shape, ())
        with self.assertRaises(TypeError):
            self.heap.create_array("objects", 3, object)

    def test_names(self):
        block = self.heap.allocate(100)
        self.heap["kept"] = block
        self.assertIn("kept", self.heap)
        self.assertEqual((list(self.heap), self.heap["kept"]), (["kept"], block))
        self.assertFalse(self.heap.set_if_absent("kept", self.heap.allocate(1)))
        del self.heap["kept"]
        for missing in (lambda: self.heap["kept"], lambda: self.heap.__delitem__("kept"), lambda: self.heap.array("x")):
            self.assertRaises(KeyError, missing)
        self.heap["block"] = block
        with self.assertRaisesRegex(heapwright.Error, "not an array"):
            self.heap.array("block")
        with self.assertRaises(heapwright.Error):
            self.heap["n" * 41] = block

    def test_a_torn_header_is_refused(self):
        self.heap.create_array("array", 10)
        memory = self.heap["array"].buffer
        good = bytes(memory[:64])
        for damage in (
            struct.pack("<8sII", b"HWarray1", 64, 4000),
            struct.pack("<8sII", b"HWarray1", 1 << 20, 10),
            struct.pack("<8sII", b"HWarray1", 64, 3) + b"{}x",
            good.replace(b"[10]", b"[99]"),
            good.replace(b"<f8", b"|O8"),
            good.replace(b'"<f8"', b'"(2,"'),
            good.replace(b"[10]", b"[-1]"),
            good.replace(b"[10]", b"{}  "),
        ):
            memory[: len(good)] = good
            memory[: len(damage)] = damage
            with self.assertRaisesRegex(heapwright.Error, "not an array"):
                self.heap.array("array")

    def test_views_keep_the_heap_open(self):
        block = self.heap.allocate(16)
        view = block.buffer
        view[:3] = b"abc"
        self.assertRaises(BufferError, self.heap.close)
        self.assertRaises(BufferError, block.free)
        array = numpy.frombuffer(view, "u1")
        del view
        self.assertRaises(BufferError, self.heap.close)
        self.assertEqual(bytes(array[:3]), b"abc")
        del array
        block.free()
        with self.assertRaisesRegex(heapwright.Error, "freed before"):
            block.buffer
        self.heap.close()
        self.assertRaises(ValueError, self.heap.allocate, 1)
        self.heap.close()

    def test_failures_have_types_and_texts(self):
        with self.assertRaisesRegex(FileNotFoundError, "or create it"):
            heapwright.SharedHeap.open("there-is-no-such-heap")
        self.assertRaises(heapwright.ExistsError, heapwright.SharedHeap.create, self.name)
        self.assertRaises(MemoryError, self.heap.allocate, 1 << 40)
        self.assertRaises(ValueError, self.heap.allocate, -1)
        self.assertRaises(ValueError, heapwright.SharedHeap.create, "x", policy="worse")
        self.heap.create_array("a", 1)
        with self.assertRaisesRegex(heapwright.ExistsError, "taken"):
            self.heap.create_array("a", 1)
        before = self.heap.allocate(64)
        before.free()
        self.assertEqual(self.heap.allocate(64), before)

    def test_a_mutex_reports_the_death_of_its_holder(self):
        with self.heap.mutex("m") as died:
            self.assertFalse(died)
            blocked = run_child(
                self.name,
                "heap = heapwright.SharedHeap.open(sys.argv[1], patience=0.05)\n"
                "try: heap.mutex('m').lock()\n"
                "except TimeoutError as e: print('timeout')",
            )
            self.assertEqual(blocked, "timeout\n")
        self.assertRaises(heapwright.Error, self.heap.mutex("m").unlock)
        run_child(self.name, "heap.mutex('m').lock(); os.kill(os.getpid(), signal.SIGKILL)", killed=True)
        mutex = self.heap.mutex("m")
        with mutex as died:
            self.assertTrue(died)
            mutex.mark_consistent()
        with mutex as died:
            self.assertFalse(died)

    def test_deleting_an_array_frees_it(self):
        self.heap.create_array("a", 1000)
        self.heap.delete_array("a")
        self.assertNotIn("a", self.heap)
        self.heap.create_array("a", 10)

    def test_an_array_with_views_keeps_its_name(self):
        view = self.heap.create_array("a", 10)
        with self.assertRaises(BufferError):
            self.heap.delete_array("a")
        self.assertIn("a", self.heap)
        del view
        self.heap.delete_array("a")
        self.assertNotIn("a", self.heap)

    def test_an_array_that_another_process_replaces_is_deleted_as_a_whole_or_not_at_all(self):
        other = heapwright.SharedHeap.open(self.name)
        self.heap.create_array("x", 100)

        def replaced(block):
            del self.heap._require_no_views
            other.delete_array("x")
            # Where the array was.
            other.create_array("mine", 100)[:] = 7
            self.assertEqual(other["mine"].offset, block.offset)
            other.create_array("x", 100)

        self.heap._require_no_views = replaced
        self.heap.delete_array("x")
        self.assertNotIn("x", other)
        self.assertEqual(other["mine"].size, self.heap["mine"].size)
        # The hole of the array that was deleted, not that of the other one.
        for number in range(3):
            self.heap.create_array(f"new{number}", 100)
        self.assertEqual(set(other.array("mine")), {7})

    def test_an_array_that_is_made_is_the_one_that_is_returned(self):
        made = self.heap.create_array("x", 10)
        del self.heap["x"]
        self.heap.array = lambda name: self.fail(f"{name} was looked up")
        again = self.heap.create_array("x", 10)
        again[:] = 3
        self.assertEqual((made.sum(), heapwright.SharedHeap.open(self.name).array("x").sum()), (0, 30))

    def test_an_array_is_that_of_its_name_while_another_process_replaces_it(self):
        other = heapwright.SharedHeap.open(self.name)
        self.heap.create_array("x", 100, "i8")
        lookups = []

        def block_of(name, root=heapwright.SharedHeap._root):
            lookups.append(name)
            found = root(self.heap, name)
            if len(lookups) == 1:
                other.delete_array("x")
                other.allocate(864).buffer[:] = b"?" * 896
                other.create_array("x", 3, "u1")[:] = 5
            return found

        self.heap._root = block_of
        self.assertEqual(list(self.heap.array("x")), [5, 5, 5])

    def test_processes_that_replace_an_array_leave_those_of_others_alone(self):
        replace = """
import time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    try: heap.delete_array("x")
    except KeyError: pass
    try: heap.create_array("x", 100, "u1")
    except heapwright.ExistsError: pass
    try: assert heap.array("x").shape == (100,)
    except KeyError: pass
"""
        heap = heapwright.SharedHeap.open(self.name)
        command = [sys.executable, "-c", CHILD.format(replace), self.name]
        children = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        while any(child.poll() is None for child in children):
            mine = [heap.create_array(f"mine{number}", 100, "u1") for number in range(2)]
            for number, array in enumerate(mine):
                array[:] = number + 1
            for number, array in enumerate(mine):
                self.assertEqual(set(array), {number + 1})
            del mine, array
            for number in range(2):
                heap.delete_array(f"mine{number}")
        self.assertEqual([child.communicate()[1] for child in children], [""] * 3)

    def test_items_of_no_length_are_refused(self):
        for dtype in ("U", "S", "V", str, bytes):
            with self.assertRaisesRegex(ValueError, "has no length: give it one, such as [USV]20"):
                self.heap.create_array("texts", 3, dtype)
        self.assertNotIn("texts", self.heap)
        self.assertEqual(self.heap.create_array("texts", 3, "U5").dtype, numpy.dtype("U5"))

    def test_slabs_are_asked_for_with_a_bool(self):
        for slabs in ("no", 1, None):
            with self.assertRaisesRegex(TypeError, "slabs is .*; it must be True or False"):
                heapwright.SharedHeap.create(self.name + "-no", slabs=slabs)

    def test_nothing_of_a_heap_is_copied_or_pickled(self):
        block, array = self.heap.allocate(10), self.heap.create_array("a", 1000)
        array[:] = 1
        instead = {self.heap: f"open\\('{self.name}'\\)", block: "its offset", self.heap.mutex("m"): r"mutex\(\)"}
        for found, advice in instead.items():
            text = f"{type(found).__name__} cannot be copied or pickled: .*{advice}"
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, text):
                    copied(found)
        self.assertEqual((array.sum(), list(self.heap)), (1000, ["a", "m"]))

    def test_a_mutex_without_a_name_leaves_no_block(self):
        with heapwright.SharedHeap.create(self.name + "-full", size=64 << 10, roots=1) as heap:
            heapwright.SharedHeap.unlink(self.name + "-full")
            heap.create_array("a", 3)
            # More calls than the heap has room for blocks.
            for _ in range(2000):
                with self.assertRaisesRegex(heapwright.Error, "roots are set"):
                    heap.mutex("m")
            heap.allocate(16)


if __name__ == "__main__":
    unittest.main()

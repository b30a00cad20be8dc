"""Heaps in forked children, in signal handlers, beside threads, and beside a process that stopped in an operation."""

import os
import signal
import sys
import threading
import time
import unittest
import warnings

import heapwright

#: Where the lock lies in a segment.
LOCK = 128


def ends_well(work, seconds=10):
    """Returns whether a forked child does its work in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        done = False
        try:
            done = work()
        finally:
            os._exit(0 if done else 1)
    return os.waitpid(child, 0)[1] == 0


class Interrupted(unittest.TestCase):
    def setUp(self):
        self.name = f"heapwright-python-{os.getpid()}-{self._testMethodName}"
        self.heap = heapwright.SharedHeap.create(self.name, patience=0.2)
        self.block = self.heap.allocate(100)
        self.switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)

    def tearDown(self):
        sys.setswitchinterval(self.switch)
        heapwright.SharedHeap.unlink(self.name)

    def beside_a_thread(self, work, check):
        """Runs a check while a thread repeats work."""
        done = threading.Event()

        def repeat():
            while not done.is_set():
                work()

        thread = threading.Thread(target=repeat)
        thread.start()
        try:
            check()
        finally:
            done.set()
            thread.join()

    def test_a_child_does_not_wait_for_threads_that_it_does_not_have(self):
        def use():
            self.block.buffer[0] = 1
            return True

        def fork():
            for _ in range(200):
                self.assertTrue(ends_well(use))

        self.beside_a_thread(lambda: self.heap._view(self.block.offset, 100), fork)

    def test_blocks_are_freed_while_threads_view_others(self):
        views = []

        def view():
            views.append(self.heap._view(self.block.offset, 100))
            if len(views) == 200:
                views.clear()

        def free():
            for _ in range(2000):
                self.heap.allocate(100).free()

        self.beside_a_thread(view, free)
        views.clear()

    def test_a_signal_handler_may_use_the_heap(self):
        def use():
            signal.signal(signal.SIGALRM, lambda *_: self.heap._view(self.block.offset, 100))
            for _ in range(500):
                signal.setitimer(signal.ITIMER_REAL, 1e-5)
                for _ in range(20):
                    self.heap._view(self.block.offset, 100)
            return True

        started = time.monotonic()
        stuck = threading.Timer(20, lambda: os.kill(child, signal.SIGKILL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os._exit(0 if use() else 1)
        stuck.start()
        status = os.waitpid(child, 0)[1]
        stuck.cancel()
        self.assertEqual(status, 0, f"after {time.monotonic() - started} s")

    def test_the_child_of_a_holder_of_a_mutex_closes_the_heap(self):
        def close():
            with self.assertRaises(heapwright.Error):
                mutex.unlock()
            self.heap.close()
            return True

        mutex = self.heap.mutex("held")
        with mutex:
            self.assertTrue(ends_well(close))

    def test_a_process_that_stopped_in_an_operation_is_named(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            while True:
                self.heap.allocate(100).free()
        try:
            self.stop_in_an_operation(child)
            for use in (lambda: self.heap.size, lambda: self.block.size, lambda: self.block.buffer):
                with self.assertRaisesRegex(heapwright.LockTimeoutError, str(child)):
                    use()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.assertEqual(self.block.size, 128)

    def stop_in_an_operation(self, child):
        for _ in range(5000):
            time.sleep(0.001)
            os.kill(child, signal.SIGSTOP)
            os.waitpid(child, os.WUNTRACED)
            with open(f"/dev/shm/{self.name}", "rb") as file:
                file.seek(LOCK)
                if any(file.read(8)):
                    return
            os.kill(child, signal.SIGCONT)
        self.fail("the child was never stopped while it held the lock")


if __name__ == "__main__":
    unittest.main()

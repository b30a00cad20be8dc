"""Heaps in forked children, in signal handlers, beside threads, and beside a process that stopped in an operation."""

import contextlib
import ctypes
import functools
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

#: How often a signal comes while a mutex is locked and unlocked.
ATTEMPTS = 5000


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
        # Ignored where tests run in the background of a shell.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
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

    def assert_free(self, mutex):
        """A mutex of a handle of its own: threads of a process are not told apart."""
        with mutex:
            pass

    def test_an_interrupted_wait_leaves_the_mutex_free(self):
        heap = heapwright.SharedHeap.open(self.name)
        mutex = heap.mutex("waited for")

        def with_statement():
            with mutex:
                self.fail("not interrupted")

        for wait in (with_statement, mutex.lock, lambda: contextlib.ExitStack().enter_context(mutex)):
            ready, told = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                mutex.lock()
                os.write(told, b".")
                time.sleep(0.15)
                mutex.unlock()
                os._exit(0)
            os.read(ready, 1)
            interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            interrupt.start()
            with self.assertRaises(KeyboardInterrupt):
                wait()
            interrupt.join()
            os.waitpid(child, 0)
            for descriptor in (ready, told):
                os.close(descriptor)
            self.assert_free(mutex)
        heap.close()

    def test_a_mutex_is_held_until_the_end_of_a_with_statement_or_of_an_exit_stack(self):
        heap = heapwright.SharedHeap.open(self.name)
        mutex = heap.mutex("m")
        with contextlib.ExitStack() as stack:
            for held in (mutex, stack):
                with held:
                    if held is stack:
                        self.assertFalse(stack.enter_context(mutex))
                    self.assertRaises(heapwright.LockTimeoutError, self.heap.mutex("m").lock)
                    self.assertRaises(BufferError, heap.close)
                self.assert_free(mutex)
        heap.close()

    def test_a_signal_at_the_end_of_a_body_leaves_the_mutex_free(self):
        class Interrupt:
            """`-Interrupt()` gets the signal in an instruction after which the interpreter does not ask for signals."""

            __neg__ = staticmethod(functools.partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGINT)))

        heap = heapwright.SharedHeap.open(self.name)
        mutex, now = heap.mutex("m"), Interrupt()
        with self.assertRaises(KeyboardInterrupt):
            with mutex:
                -now
        self.assert_free(mutex)
        heap.close()

    @unittest.skipIf(sys.version_info < (3, 10), "signals come between any two instructions, as in threading.Lock")
    def test_signals_at_any_time_leave_the_mutex_free(self):
        class Came(Exception):
            pass

        def come(*_):
            raise Came

        heap = heapwright.SharedHeap.open(self.name)
        mutex, came = heap.mutex("m"), 0
        previous = signal.signal(signal.SIGALRM, come)
        try:
            for attempt in range(ATTEMPTS):
                try:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + attempt % 40))
                        for _ in range(100):
                            with mutex:
                                pass
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except Came:
                    came += 1
                self.assert_free(mutex)
        finally:
            signal.signal(signal.SIGALRM, previous)
        self.assertGreater(came, ATTEMPTS // 2)
        heap.close()

    def test_a_body_that_ends_in_the_child_of_a_holder_raises(self):
        def locked_until_the_end(finish):
            with self.heap.mutex("held"):
                child = os.fork()
                if child == 0:
                    finish()
                    return 0
            return child

        parent = os.getpid()
        for finish in (lambda: None, self.heap.close):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child, refused = 0, False
                try:
                    child = locked_until_the_end(finish)
                except heapwright.Error:
                    refused = True
            if os.getpid() != parent:
                os._exit(0 if refused else 1)
            self.assertEqual((refused, os.waitpid(child, 0)[1]), (False, 0))

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

"""What a process is made ready with before a task may come, and what keeps it from being another worker.

Where the program cannot be started again, the start method "spawn" imports its main script. One
without the usual `if __name__ == "__main__"` would then do again all that it does, and start a second
worker; so it is looked at first, and a `Worker` refuses to be made while its process is not ready.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
from types import FrameType

PROCESS_NAME = "perdure-alone"
# Asks for the stacks of all threads. A real-time signal where there are any: no program uses the last.
DUMP_SIGNAL: int = getattr(signal, "SIGRTMAX", getattr(signal, "SIGUSR2", 0))

_PR_SET_PDEATHSIG = 1
_is_ready = False


def refuse_worker_in_bootstrap() -> None:
    """Raises RuntimeError in a process that is being made ready for one task."""
    if multiprocessing.current_process().name == PROCESS_NAME and not _is_ready:
        raise RuntimeError(
            "this process was started for one task of a worker, and imports its program: begin it "
            'with `if __name__ == "__main__":`, or it would start a second worker'
        )


def main_script_can_be_imported() -> bool:
    """Without doing again what it does. Looked for: the word that the guard cannot do without."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:  # a session: nothing is imported
        return True
    try:
        with open(path, encoding="utf-8", errors="replace") as script:
            return "__main__" in script.read()
    except OSError:
        return False


def prepare(worker_pid: int, stacks_path: str) -> None:
    """In the process, before its task comes. `stacks_path`: where its stacks go when it crashes, and
    whenever DUMP_SIGNAL comes."""
    global _is_ready
    die_with_parent()
    if os.getppid() != worker_pid:  # it died before it was asked for
        os._exit(1)
    if threading.current_thread() is threading.main_thread():
        _leave_the_workers_signals()
    # A group of its own: a Ctrl-C is the worker's matter, and what the task starts is ended with it.
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    descriptor = os.open(stacks_path, os.O_WRONLY | os.O_APPEND)
    os.unlink(stacks_path)  # a worker that is killed cannot
    faulthandler.enable(file=descriptor, all_threads=True)
    faulthandler.register(DUMP_SIGNAL, file=descriptor, all_threads=True)
    _is_ready = True


def _leave_the_workers_signals() -> None:
    """A service manager signals all processes of a service; ours ends when its worker says so.

    With a handler and not ignored: what the task starts must not inherit that.
    """
    loop = asyncio._get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if loop is not None:  # its handlers are called whatever `signal.signal` says
            loop.remove_signal_handler(number)
        signal.signal(number, _ignore)
    os.register_at_fork(after_in_child=_restore_signals)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _restore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _ignore:
            signal.signal(number, signal.SIG_DFL)


def die_with_parent() -> None:
    """On Linux at once; elsewhere the end of the pipe says so, a moment later."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

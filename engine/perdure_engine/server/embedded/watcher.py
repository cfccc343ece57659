"""Runs one command for as long as its owner lives. A program, not a module: standard library only.

    python -I -S watcher.py OWNER_PID ACCOUNT FOLDER COMMAND [ARGUMENT...]

Its standard input is a pipe whose other end the owner holds. One byte in it asks for an orderly
end; its closing means that the owner is gone. A pipe alone would do but for programs that fork
without exec and so keep a copy of the owner's end: hence the pidfd beside it, where there is one.

Its standard output tells the owner `started PID` or `failed REASON`, and by being closed that the
watcher, and with it the command, has ended. The command writes to our standard error.

Nothing but the owner ends this program: a service manager sends SIGTERM to a whole process group,
and the database must outlive the engine that is finishing its work. SIGKILL cannot be ignored; the
kernel then sends the command SIGQUIT (PR_SET_PDEATHSIG, reliable here because this program has one
thread and the command is not set-user-id).
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence

CONTROL_FD = 0
STATUS_FD = 1
ERROR_FD = 2

EXIT_NOT_STARTED = 126
EXIT_BY_SIGNAL = 128

# What is sent to the command, and the patience in seconds before the next. To PostgreSQL SIGINT is
# a fast shutdown (disconnect everybody, write a checkpoint), SIGQUIT an immediate one (the next
# start recovers from the log). With the owner gone somebody may be waiting to start again.
Steps = tuple[tuple[signal.Signals, float | None], ...]
ORDERLY: Steps = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, None))
OWNER_GONE: Steps = ((signal.SIGINT, 1.5), (signal.SIGQUIT, 3.0), (signal.SIGKILL, None))

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# linux/prctl.h, linux/sched.h
PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000


def main(arguments: Sequence[str]) -> int:
    owner, account, folder, *command = arguments
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    child_fd = _wake_on_child_end()
    owner_fd = _watch_owner(int(owner))
    child, failure = _start(account, folder, command)
    if failure:
        os.waitpid(child, 0)
        _tell(f"failed {failure}")
        return EXIT_NOT_STARTED
    _tell(f"started {child}")
    return _watch(child, child_fd, owner_fd)


def _watch(child: int, child_fd: int, owner_fd: int | None) -> int:
    """Waits for the end of the child, and brings it about when it is time."""
    watched = {CONTROL_FD, child_fd} | ({owner_fd} if owner_fd is not None else set())
    steps: Iterator[tuple[signal.Signals, float | None]] = iter(())
    deadline: float | None = None
    while True:
        patience = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(watched, [], [], patience)
        if child_fd in ready:
            os.read(child_fd, 4096)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else EXIT_BY_SIGNAL - code
        if owner_fd in ready or (CONTROL_FD in ready and not os.read(CONTROL_FD, 1)):
            watched = {child_fd}
            steps = iter(OWNER_GONE)
        elif CONTROL_FD in ready:
            steps = iter(ORDERLY)
        elif ready or deadline is None:
            continue
        number, seconds = next(steps)
        deadline = None if seconds is None else time.monotonic() + seconds
        _send(child, number)


def _send(child: int, number: signal.Signals) -> None:
    # The lesser signals are for the child alone, which tells its own children what they mean.
    with contextlib.suppress(ProcessLookupError):
        if number is signal.SIGKILL:
            os.killpg(child, number)
        else:
            os.kill(child, number)


def _tell(message: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(STATUS_FD, f"{message}\n".encode())


def _wake_on_child_end() -> int:
    """A descriptor that becomes readable when a child ends: select knows no processes."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return read_fd


def _watch_owner(owner: int) -> int | None:
    """The owner's pidfd, or None where there is no such thing: the pipe is then the only sign."""
    descriptor = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(owner)
    if os.getppid() != owner:
        sys.exit(EXIT_NOT_STARTED)
    return descriptor


def _start(account: str, folder: str, command: list[str]) -> tuple[int, str]:
    """The child's pid, and why it could not run the command (empty when it does)."""
    watcher = os.getpid()
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _run(watcher, account, folder, command)
        except BaseException as error:
            os.write(write_fd, str(error).replace("\n", " ").encode())
        os._exit(EXIT_NOT_STARTED)
    os.close(write_fd)
    with open(read_fd, encoding="utf-8", errors="replace") as reader:
        return child, reader.read()


def _run(watcher: int, account: str, folder: str, command: list[str]) -> None:
    """In the child: becomes the command, or raises."""
    for number in (*IGNORED, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    os.umask(0o077)
    null_fd = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_fd, CONTROL_FD)
    os.dup2(ERROR_FD, STATUS_FD)
    become(account)
    if sys.platform == "linux":
        # After the change of account, which resets it.
        _libc_call("prctl", PR_SET_PDEATHSIG, int(signal.SIGQUIT), 0, 0, 0)
        if os.getppid() != watcher:
            raise ChildProcessError("the watcher has ended")
    os.chdir(folder)
    os.execv(command[0], command)


def become(account: str) -> None:
    """`same`, `user:UID:GID`, or `namespace:UID:GID`: ourselves, but called UID and GID.

    In a user namespace that maps our id to another one and nothing else a process of root's still
    owns root's files, yet does not look like root to itself, nor has any of root's powers after
    the exec.
    """
    kind, *ids = account.split(":")
    if kind == "user":
        uid, gid = map(int, ids)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif kind == "namespace":
        uid, gid = map(int, ids)
        outer_uid, outer_gid = os.geteuid(), os.getegid()
        _libc_call("unshare", CLONE_NEWUSER)
        # The kernel lets a process map its own group only after giving up setgroups.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {outer_uid} 1"),
            ("gid_map", f"{gid} {outer_gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)


def _libc_call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*map(ctypes.c_ulong, arguments)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

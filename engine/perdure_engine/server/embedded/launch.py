"""The owner's end of watcher.py: runs a command that ends when we do."""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from perdure_engine.server.embedded.account import Account
from perdure_engine.server.embedded.binaries import Binaries
from perdure_engine.server.embedded.errors import EmbeddedPostgresError
from perdure_engine.server.embedded.folder import DataFolder

WATCHER = Path(__file__).with_name("watcher.py")

# More than all of the watcher's own patience together (watcher.ORDERLY).
STOP_DEADLINE_S = 60

# initdb writes 40 MB and waits for the disk.
INITDB_DEADLINE_S = 120
# The server answers in 0.1 s, except after a crash: then it first reads up to max_wal_size and more
# of its log. Its death ends the waiting at once.
READY_DEADLINE_S = 300
# Seldom in the end, because the server logs each attempt that comes while it recovers.
READY_POLL_S = 0.01
READY_POLL_MAX_S = 0.2
CONNECT_TIMEOUT_S = 5
PROBE_DEADLINE_S = 20

# With its defaults the allocator gives memory back to the kernel after each of our larger
# statements only to ask for it again: 520 instead of 300 us of CPU (design, "The statement").
MALLOC_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
}


class LaunchError(Exception):
    """The command could not even be started; the text says why."""


class WatchedProcess:
    """One running command. `stop` must be called, also when the command has ended by itself."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        account: Account,
        folder: Path,
        environment: Mapping[str, str],
        log_fd: int,
        lock_fd: int,
    ) -> None:
        """Starts the command in `folder`; all that it prints goes to `log_fd`.

        It and all its children keep `lock_fd` open. Raises LaunchError.
        """
        arguments = [str(os.getpid()), account.argument, str(folder), *map(str, command)]
        self._watcher = subprocess.Popen(
            # -I -S: neither the user's environment nor site-packages concern the watcher.
            [sys.executable, "-I", "-S", str(WATCHER), *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_fd,
            env=environment,
            cwd="/",
            pass_fds=(lock_fd,),
            start_new_session=True,
        )
        assert self._watcher.stdin is not None
        assert self._watcher.stdout is not None
        self._control = self._watcher.stdin
        self._status = self._watcher.stdout
        word, _, text = self._status.readline().decode(errors="replace").strip().partition(" ")
        if word != "started":
            self.stop()
            raise LaunchError(text or "the watcher process ended at once")
        self.pid = int(text)

    def ended_within(self, timeout_s: float) -> bool:
        """Whether the command has ended; waits for it as long as that."""
        readable, _, _ = select.select([self._status], [], [], timeout_s)
        return bool(readable)

    def stop(self) -> int:
        """Ends the command in order and returns its exit code; returns when nothing of it runs."""
        with contextlib.suppress(BrokenPipeError):
            self._control.write(b"s")
        try:
            code = self._watcher.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            # A process that not even SIGKILL ends: the kernel is waiting for a disk.
            self._watcher.kill()
            code = self._watcher.wait()
        self._control.close()
        self._status.close()
        return code


class Launcher:
    """Runs PostgreSQL's programs in the data folder, under a watcher, with the log as output."""

    def __init__(self, folder: DataFolder, log_fd: int, lock_fd: int) -> None:
        self._folder = folder
        self._log_fd = log_fd
        self._lock_fd = lock_fd
        self._log_offset = os.fstat(log_fd).st_size
        # Variables named PG* would turn our own settings into somebody else's.
        inherited = {name: value for name, value in os.environ.items() if name[:2] != "PG"}
        self._environment = {**inherited, **MALLOC_ENVIRONMENT, "LC_ALL": "C"}

    def start(self, command: Sequence[str | Path], account: Account) -> WatchedProcess:
        try:
            return self._launch(command, account)
        except LaunchError as error:
            raise self._failure(f"{command[0]} cannot be run: {error}") from error

    def run(self, command: Sequence[str | Path], account: Account) -> None:
        """Runs the command to its end; raises when it fails."""
        process = self.start(command, account)
        ended = process.ended_within(INITDB_DEADLINE_S)
        code = process.stop()
        if not ended or code != 0:
            how = f"failed with code {code}" if ended else f"took over {INITDB_DEADLINE_S} s"
            raise self._failure(f"{command[0]} {how}.")

    def probe(self, binaries: Binaries, account: Account) -> str:
        """Why PostgreSQL cannot run here as that account; empty when it can."""
        try:
            self._folder.give(account)
            process = self._launch([binaries.postgres, "--version"], account)
        except (LaunchError, OSError) as error:
            return str(error)
        process.ended_within(PROBE_DEADLINE_S)
        code = process.stop()
        return f"its exit code is {code}" if code else ""

    def wait_until_ready(self, process: WatchedProcess, dsn: str) -> None:
        deadline_s = time.monotonic() + READY_DEADLINE_S
        poll_s = READY_POLL_S
        while True:
            try:
                psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_S).close()
                return
            except psycopg.OperationalError as error:
                reason = str(error)
            if process.ended_within(poll_s):
                raise self._failure("PostgreSQL ended while it was starting.")
            poll_s = min(1.5 * poll_s, READY_POLL_MAX_S)
            if time.monotonic() > deadline_s:
                raise self._failure(
                    f"PostgreSQL was not ready after {READY_DEADLINE_S} s: {reason}"
                )

    def _launch(self, command: Sequence[str | Path], account: Account) -> WatchedProcess:
        return WatchedProcess(
            command,
            account=account,
            folder=self._folder.root,
            environment=self._environment,
            log_fd=self._log_fd,
            lock_fd=self._lock_fd,
        )

    def _failure(self, problem: str) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(
            problem,
            f"See {self._folder.log}; or name a running server with --database-url.",
            self._folder.log_tail(self._log_offset),
        )

"""Children of ours: started tied to us, ended in order or by kill -9, with all that is below them.

Everything here blocks, for moments; a stop for some seconds at most.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.bench import proc

TIED = Path(__file__).with_name("tied.py")

# An engine gives its shards back and lets PostgreSQL write its checkpoint.
STOP_PATIENCE_S = 20.0
KILL_PATIENCE_S = 10.0
POLL_S = 0.01
LOG_TAIL_LINES = 25
OWN_PORTS = range(15_000, 32_000)  # Linux gives 32768 and above to outgoing connections
LOG_TAIL_BYTES = 16 * 1024


class ProcessFailed(Exception):
    """A child could not start, or ended when it should not have. Says so with its last words."""


class Child:
    """A Python program in a session of its own: Ctrl-C at the terminal is ours to pass on.

    May be started again after it has ended. What it prints is added to the log.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._arguments = [sys.executable, "-P", *arguments]
        self._log = log
        self._environment = clean_environment(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """None when it does not run."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def start(self) -> None:
        assert self.pid is None, f"{self.name} runs already"
        tie = [sys.executable, "-I", "-S", str(TIED), str(os.getpid())]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*tie, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises ProcessFailed when it has ended."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise ProcessFailed(f"{self.name} ended with {code}. Its last lines:\n{self.tail()}")

    def stop(self) -> None:
        """SIGTERM, then kill -9 of everything when that takes too long. Twice is fine."""
        if self._process is None or self._process.poll() is not None:
            return
        below = family(self._process.pid)
        self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            below |= family(self._process.pid)
        kill_all(below)
        self._process.wait(KILL_PATIENCE_S)

    def kill(self) -> None:
        """kill -9 of the process and all below it, at once; returns when all are gone."""
        if self._process is None:
            return
        if self._process.poll() is None:
            kill_all(family(self._process.pid))
        self._process.wait(KILL_PATIENCE_S)

    def tail(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LOG_TAIL_LINES:])


Identity = tuple[int, str]


def family(pid: int) -> set[Identity]:
    """The process and all below it, so named that a pid used again is not mistaken for it."""
    return {(one, proc.start_time(one)) for one in (pid, *proc.descendants(pid))}


def kill_all(identities: set[Identity]) -> None:
    """Raises ProcessFailed when one of them is still there after 10 s."""
    deadline_s = time.monotonic() + KILL_PATIENCE_S
    left = _living(identities)
    for pid, _ in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    while left := _living(left):
        if time.monotonic() > deadline_s:
            raise ProcessFailed(f"still there after kill -9: {sorted(pid for pid, _ in left)}")
        time.sleep(POLL_S)


def _living(identities: set[Identity]) -> set[Identity]:
    return {
        (pid, started)
        for pid, started in identities
        if proc.is_alive(pid) and proc.start_time(pid) == started
    }


def clean_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Ours without settings of Perdure: what runs here must not meet the user's own database."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, **added}


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on. Somebody could before we do; nobody does.

    None of those that outgoing connections get: a client that waits there for its server to begin
    would, once in thousands of attempts, be given the same port and find itself.
    """
    while True:
        port = random.choice(OWN_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port

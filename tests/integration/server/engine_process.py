"""`perdure dev` and `perdure server` as processes of their own, and what they leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import wait_until

STOP_DEADLINE_S = 15.0
# The commands without the CLI, as it runs them.
RUN = """
import sys, typer
from perdure_engine.server import entry
app = typer.Typer(add_completion=False)
app.command("server")(entry.server_command)
app.command("dev")(entry.dev_command)
app.add_typer(entry.db_command, name="db")
app()
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", RUN, *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would configure an engine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(more or {})}


def run(*arguments: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class EngineProcess:
    """A command that serves; killed at the end of the block if it still runs then."""

    def __init__(self, *arguments: str, more: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command(*arguments),
            env=environment(more),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def wait_for(self, pattern: str) -> str:
        """Read what it prints up to a line that matches; the match's first group."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            found = re.search(pattern, line)
            if found is not None:
                return found[1]
        raise AssertionError(f"{pattern!r} was not printed, but: {''.join(self.said)}")

    def grpc_address(self) -> str:
        return self.wait_for(r"gRPC +(127\.0\.0\.1:\d+)")

    def stop(self, number: signal.Signals) -> int:
        """Send the signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_DEADLINE_S)


def postgres_processes(folder: Path) -> Iterator[int]:
    """The processes of the PostgreSQL that works in the data folder (Linux)."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve().is_relative_to(folder.resolve()):
                yield int(entry.name)
        except OSError:
            continue


def assert_no_postgres(folder: Path) -> None:
    wait_until(lambda: not list(postgres_processes(folder)), 5.0, "PostgreSQL ends")

"""The command `perdure` as its users run it: in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PERDURE = (sys.executable, "-P", "-m", "perdure")
COMMAND_DEADLINE_S = 100.0


@dataclass
class CommandLine:
    """Runs `perdure …` and other programs in one folder and environment. Close it at the end."""

    environment: dict[str, str]
    folder: Path
    _running: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def run(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PERDURE, *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            input=input,
            timeout=COMMAND_DEADLINE_S,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """With pipes for both outputs, and in a session of its own, as a terminal would."""
        return self._start([*PERDURE, *arguments], subprocess.PIPE)

    def start_program(self, path: Path) -> subprocess.Popen[str]:
        """What it prints is in a file beside it that ends with `.log`."""
        with path.with_suffix(".log").open("w") as log:
            return self._start([sys.executable, "-P", str(path)], log)

    def _start(self, command: list[str], output: int | IO[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.folder,
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def start_dev(self, data: Path) -> subprocess.Popen[str]:
        """Starts `perdure dev` on free ports, for all commands from then on."""
        arguments = ("dev", "--data", str(data), "--grpc-port", "0", "--http-port", "0")
        dev = self.start(*arguments)
        assert dev.stdout is not None
        for line in dev.stdout:
            name, _, address = line.strip().partition(" ")
            if name == "gRPC":
                self.environment["PERDURE_ADDRESS"] = address.strip()
                return dev
        raise AssertionError(f"perdure dev ended with {dev.wait()}: {dev.communicate()[1]}")

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


def clean_environment(folder: Path) -> dict[str, str]:
    """Without settings of the developer's, and with all that is temporary in the folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "PERDURE_CALL_TIMEOUT": "30s", "TMPDIR": str(folder)}


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes, zombies apart, in whose environment the folder stands."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [line for line in found if line]

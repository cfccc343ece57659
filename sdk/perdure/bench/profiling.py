"""py-spy beside engine and worker while a workload is measured."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

# At 100 a second a W1 of 5 s would be 500 samples; at 1,000 py-spy takes CPU from what it watches.
SAMPLES_PER_S = 250
WRITE_PATIENCE_S = 60.0


class ProfileFormat(StrEnum):
    SPEEDSCOPE = "speedscope"
    RAW = "raw"


_SUFFIXES = {ProfileFormat.SPEEDSCOPE: "speedscope.json", ProfileFormat.RAW: "raw.txt"}


@dataclass(frozen=True)
class ProfileOptions:
    folder: Path
    format: ProfileFormat


def find_py_spy() -> str | None:
    """Beside this Python first: that one can read this Python's frames."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


class Profiler:
    """Its own CPU counts as foreign."""

    def __init__(self, program: str, options: ProfileOptions, workload: str) -> None:
        self._program = program
        self._options = options
        self._workload = workload
        self._recorders: list[subprocess.Popen[bytes]] = []

    def start(self, pids: Mapping[str, int]) -> None:
        self._options.folder.mkdir(parents=True, exist_ok=True)
        for name, pid in pids.items():
            path = self._options.folder / (
                f"{self._workload}-{name}.{_SUFFIXES[self._options.format]}"
            )
            command = [self._program, "record", "--pid", str(pid), "--rate", str(SAMPLES_PER_S)]
            command += ["--format", self._options.format, "--output", str(path), "--nonblocking"]
            self._recorders.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

    def stop(self) -> None:
        """Has the files written. Twice is fine."""
        recorders, self._recorders = self._recorders, []
        for recorder in recorders:
            recorder.send_signal(signal.SIGINT)
        for recorder in recorders:
            try:
                recorder.wait(WRITE_PATIENCE_S)
            except subprocess.TimeoutExpired:
                recorder.kill()
                recorder.wait()

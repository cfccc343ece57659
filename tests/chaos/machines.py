"""Database, engine nodes and workers as processes that can be killed one by one."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.server.engine_process import postgres_processes
from tests.waiting import wait_until

from perdure.bench import proc
from perdure.bench.processes import Child, free_port, kill_all
from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_migrations import upgrade

ROOT = Path(__file__).parents[2]
READY_S = 60.0


class Database:
    """A PostgreSQL of our own, durable, whose processes can be killed all at once."""

    def __init__(self, folder: Path, number_of_shards: int) -> None:
        self.folder = folder
        self._postgres = EmbeddedPostgres(folder)
        self.dsn = self._postgres.start()
        upgrade(self.dsn, number_of_shards=number_of_shards)

    def kill(self) -> None:
        kill_all({(pid, proc.start_time(pid)) for pid in postgres_processes(self.folder)})

    def restart(self) -> None:
        """Returns when it takes connections: it recovers from its log first."""
        self._postgres.stop()
        assert self._postgres.start() == self.dsn

    def stop(self) -> None:
        self._postgres.stop()


class Process(Child):
    """A child that can also be paused. Its output is kept in the scene's folder."""

    def send(self, number: signal.Signals) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)

    def restart(self) -> None:
        self.start()

    def wait_ended(self, deadline_s: float) -> int:
        """Its exit code."""
        assert self._process is not None
        wait_until(lambda: self.pid is None, deadline_s, f"the end of the {self.name}")
        return self._process.returncode


class Scene:
    """What a torture test plays with. Made by `scene`."""

    def __init__(self, folder: Path, number_of_shards: int) -> None:
        self.folder = folder
        self.number_of_shards = number_of_shards
        self.database = Database(folder / "pg", number_of_shards)
        self.effects = folder / "effects"
        self.task_queue = "torture"
        self.processes: list[Process] = []

    def engine(self, name: str) -> tuple[Process, str]:
        """A node that is not started yet, and its address, which stays over restarts."""
        port = free_port()
        environment = {"PERDURE_DATABASE_URL": self.database.dsn, "PERDURE_LOG_FORMAT": "console"}
        arguments = ["-m", "perdure", "server", "--grpc-port", str(port)]
        arguments += ["--http-port", str(free_port())]
        return self._add(name, arguments, environment), f"127.0.0.1:{port}"

    def worker(self, name: str, addresses: Sequence[str]) -> Process:
        arguments = ["-m", "tests.chaos.program", "--task-queue", self.task_queue]
        arguments += ["--effects", str(self.effects)]
        for address in addresses:
            arguments += ["--address", address]
        return self.program(name, arguments)

    def program(self, name: str, arguments: Sequence[str]) -> Process:
        """A program of the tests."""
        # before what we have ourselves: a checkout that is tested by that is tested in the worker too
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return self._add(name, arguments, {"PYTHONPATH": path})

    def _add(self, name: str, arguments: Sequence[str], environment: dict[str, str]) -> Process:
        process = Process(name, arguments, self.folder / f"{name}.log", environment)
        self.processes.append(process)
        return process

    def log_of(self, process: Process) -> str:
        return (self.folder / f"{process.name}.log").read_text(errors="replace")

    def alarms(self) -> list[str]:
        """Lines of the processes' logs that must not be there."""
        words = ("alarm", "Traceback", "Task exception was never retrieved")
        return [
            f"{process.name}: {line}"
            for process in self.processes
            for line in self.log_of(process).splitlines()
            if any(word in line for word in words)
        ]


@contextmanager
def scene(number_of_shards: int = 8) -> Iterator[Scene]:
    """Leaves no process behind. The folder stays when the block fails; its name is printed then.

    Not pytest's tmp_path: PostgreSQL's socket lies in it, and a socket's path is short.
    """
    folder = Path(tempfile.mkdtemp(prefix="perdure-torture-"))
    played = Scene(folder, number_of_shards)
    try:
        yield played
    except BaseException:
        print(f"\nlogs, database and effects are in {folder}")
        raise
    finally:
        stop_all(played.processes)
        played.database.stop()
    shutil.rmtree(folder)


def stop_all(processes: Sequence[Process]) -> None:
    for process in reversed(processes):
        if process.pid is not None:
            process.send(signal.SIGCONT)
        process.stop()

"""A file with many lines goes into a database, and no line is lost or done twice over.

    perdure dev                                          # in one terminal
    python sdk/examples/batch_import/batch_import.py     # in another one

One activity reads the whole file. After each batch it says how far it has come, and goes on when
that is saved: `activity.checkpoint`. Whatever happens to it, its next attempt begins there, and not
at the beginning. The program breaks it off twice on its way, to show that.

Between a batch and its checkpoint it may be broken off as well: the batch is then written again, by
the same key, which is why that changes nothing.

Its tests: tests/e2e/examples/test_batch_import.py
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

from perdure import activity, workflow
from perdure.client import Client
from perdure.common import RetryPolicy
from perdure.worker import Worker

TASK_QUEUE = "imports"
LINES_PER_BATCH = 100


@dataclass
class Import:
    file: str
    database: str


@dataclass
class Done:
    lines: int
    attempts: int


class Importer:
    """`breaks` are line numbers at which an attempt is broken off, each of them once."""

    def __init__(self, breaks: list[int] | None = None) -> None:
        self._breaks = list(breaks or ())
        self.began_at: list[int] = []
        """The line at which each attempt began."""

    @activity.defn
    async def import_lines(self, job: Import) -> Done:
        progress = activity.info().heartbeat_details
        done = int(progress[0]) if progress else 0
        self.began_at.append(done)
        with sqlite3.connect(job.database) as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS people (id TEXT PRIMARY KEY, name TEXT NOT NULL)"
            )
            for batch in batches(job.file, done):
                database.executemany(
                    "INSERT INTO people VALUES (?, ?) ON CONFLICT DO NOTHING", batch
                )
                database.commit()
                done += len(batch)
                self._perhaps_break(done)
                await activity.checkpoint(done)
        return Done(done, activity.info().attempt)

    def _perhaps_break(self, line: int) -> None:
        if self._breaks and line >= self._breaks[0]:
            raise RuntimeError(f"broken off at line {self._breaks.pop(0)}")


def batches(file: str, skip: int) -> Iterator[list[tuple[str, str]]]:
    with Path(file).open(encoding="utf-8") as lines:
        rest = islice(lines, skip, None)
        while batch := list(islice(rest, LINES_PER_BATCH)):
            yield [_parsed(line) for line in batch]


def _parsed(line: str) -> tuple[str, str]:
    id, _, name = line.strip().partition(",")
    return id, name


@workflow.defn
class ImportWorkflow:
    @workflow.run
    async def run(self, job: Import) -> Done:
        return await workflow.execute_activity_method(
            Importer.import_lines,
            job,
            start_to_close_timeout=timedelta(hours=1),
            # A worker that dies is noticed without this. It is for an attempt that hangs.
            heartbeat_timeout=timedelta(minutes=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=200)),
        )


def write_file(path: Path, lines: int) -> Path:
    path.write_text("".join(f"{line},Person {line}\n" for line in range(lines)), "utf-8")
    return path


def count(database: Path) -> int:
    with sqlite3.connect(database) as connection:
        (found,) = connection.execute("SELECT count(*) FROM people").fetchone()
    return int(found)


def make_worker(client: Client, importer: Importer) -> Worker:
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[ImportWorkflow],
        activities=[importer.import_lines],
    )


async def run_import(client: Client, id: str, job: Import) -> Done:
    return await client.execute_workflow(ImportWorkflow.run, job, id=id, task_queue=TASK_QUEUE)


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    importer = Importer(breaks=[400, 800])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = Import(str(write_file(folder / "people.csv", 1000)), str(folder / "people.db"))
        async with await Client.connect(address) as client, make_worker(client, importer):
            done = await run_import(client, f"import-{os.urandom(3).hex()}", job)
        print(f"{count(folder / 'people.db')} of {done.lines} lines in {done.attempts} attempts")
    print(f"which began at the lines {importer.began_at}")


if __name__ == "__main__":
    asyncio.run(main())

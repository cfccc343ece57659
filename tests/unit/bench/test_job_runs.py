"""Waiting for jobs to have run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.bench.job_log import JobLogReader
from perdure.bench.processes import ProcessFailed
from perdure.bench.workloads import job_runs


class OneMoreAtEachLook(JobLogReader):
    looks = 0

    def count(self) -> int:
        self.looks += 1
        return self.looks


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OneMoreAtEachLook:
    monkeypatch.setattr(job_runs, "PATIENCE_S", 0.0)
    return OneMoreAtEachLook(tmp_path)


async def test_patience_begins_when_the_last_is_due(log: OneMoreAtEachLook) -> None:
    await job_runs.wait_until_run(log, 3, datetime(9000, 1, 1, tzinfo=UTC))

    assert log.looks == 3


async def test_what_is_overdue_is_not_waited_for(log: OneMoreAtEachLook) -> None:
    with pytest.raises(ProcessFailed, match=r"^0 of 3 jobs ran$"):
        await job_runs.wait_until_run(log, 3, datetime(2000, 1, 1, tzinfo=UTC))

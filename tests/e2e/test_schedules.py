"""`perdure schedule` as a newcomer meets it: an engine, a worker, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command_line import CommandLine
from tests.waiting import wait_until

TICKS = ("--interval", "1s", "--task", "double", "--task-queue", "lab")


@pytest.fixture(scope="module", autouse=True)
def worker(dev: CommandLine) -> None:
    program = dev.folder / "lab_of_schedules.py"
    shutil.copy(Path(__file__).with_name("lab.py"), program)
    dev.start_program(program)


def slots(dev: CommandLine, *options: str) -> list[dict[str, Any]]:
    found = dev.run("schedule", "slots", "ticks", *options, "-o", "json")
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_a_schedule_from_its_making_to_its_end(dev: CommandLine) -> None:
    made = dev.run("schedule", "create", "ticks", *TICKS, "--parameters", '{"number": 21}')
    assert made.returncode == 0, made.stderr
    assert "Every second" in made.stdout
    taken = dev.run("schedule", "create", "ticks", *TICKS)
    assert (taken.returncode, "exists" in taken.stderr) == (1, True)

    wait_until(lambda: len(slots(dev, "--outcome", "fired")) >= 2, 60, "no slot has fired")
    done = dev.run("job", "result", slots(dev, "--outcome", "fired")[-1]["job_id"])
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    assert "double" in dev.run("schedule", "list").stdout

    paused = dev.run("schedule", "pause", "ticks", "--note", "enough")
    assert paused.returncode == 0, paused.stderr
    described = dev.run("schedule", "describe", "ticks").stdout
    assert "paused" in described
    assert "enough" in described
    triggered = dev.run("schedule", "trigger", "ticks", "--overlap", "allow-all", "-o", "json")
    assert json.loads(triggered.stdout)["outcome"] == "FIRED"

    changed = dev.run("schedule", "update", "ticks", "--interval", "1h", "-o", "json")
    assert json.loads(changed.stdout)["description"] == "Every hour"
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T03:00:00Z")
    told = dev.run("schedule", "backfill", "ticks", *span, "--dry-run", "-o", "json")
    assert len(json.loads(told.stdout)["action_times"]) == 4
    done = dev.run("schedule", "backfill", "ticks", *span, "--yes", "--overlap", "allow-all")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4), done.stderr
    assert len(slots(dev, "--outcome", "backfilled")) == 4

    assert dev.run("schedule", "unpause", "ticks").returncode == 0
    assert dev.run("schedule", "delete", "ticks", "--yes").returncode == 0
    assert dev.run("schedule", "describe", "ticks").returncode == 3


def test_what_is_wrong_with_a_schedule_is_told_by_its_field(dev: CommandLine) -> None:
    never = dev.run("schedule", "create", "never", "--cron", "0 0 31 2 *", "--task", "double")

    assert never.returncode == 2
    assert "schedule.spec.cron[0]" in never.stderr
    assert dev.run("schedule", "describe", "never").returncode == 3

"""`perdure schedule create` and its neighbours, against a client that remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perdure.cli.app import app
from perdure.client import Client
from perdure.converter import DataConverter, Payload
from perdure.errors import RPCError, RPCStatusCode, ScheduleAlreadyRunningError
from perdure.schedule import (
    Schedule,
    ScheduleActionStartJob,
    ScheduleActionStartWorkflow,
    ScheduleBackfill,
    ScheduleBackfillResult,
    ScheduleCalendarSpec,
    ScheduleCatchUpPolicy,
    ScheduleDescription,
    ScheduleGapPolicy,
    ScheduleInfo,
    ScheduleIntervalSpec,
    ScheduleListAction,
    ScheduleListDescription,
    ScheduleListInfo,
    ScheduleListSchedule,
    ScheduleListState,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleRepeatPolicy,
    ScheduleSlot,
    ScheduleSlotOutcome,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdateInput,
)

CONVERTER = DataConverter.default.payload_converter
AT = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
EVIL = "x\x1b]0;owned\x07"


def slot(**changes: Any) -> ScheduleSlot:
    fields: dict[str, Any] = {
        "nominal_at": AT,
        "outcome": ScheduleSlotOutcome.FIRED,
        "acted_at": AT,
        "job_id": "job-1",
        "workflow_id": "",
        "run_id": "",
        "detail": "",
        "manual": False,
    }
    return ScheduleSlot(**fields | changes)


def nightly() -> Schedule:
    return Schedule(
        ScheduleActionStartJob("report", args=[Payload("json/plain", b'"daily"')]),
        ScheduleSpec(
            cron_expressions=["30 2 * * *"],
            calendars=[ScheduleCalendarSpec()],
            time_zone_name="Europe/Berlin",
        ),
        state=ScheduleState(note="made by hand"),
    )


class Engine:
    """Client and handle in one. `answer`: raised instead, if it is an error."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.schedule = nightly()
        self.saved: Schedule | None = None
        self.conflicts = 0
        self.error: Exception | None = None
        self.slots_found = [
            slot(),
            slot(
                nominal_at=AT - timedelta(days=1),
                outcome=ScheduleSlotOutcome.MISSED,
                job_id="",
                detail=EVIL,
            ),
        ]
        self.core = SimpleNamespace(
            connection=SimpleNamespace(wait_ready=self._ready),
            decode_or_keep=CONVERTER.from_payload,
        )
        self.schedules = SimpleNamespace(list=self.list)

    def note(self, name: str, *values: Any) -> None:
        self.asked.append((name, *values))
        if self.error is not None:
            raise self.error

    async def create_schedule(self, id: str, schedule: Schedule, **options: Any) -> Engine:
        self.saved = schedule
        options.pop("rpc_timeout")
        self.note("create", id, options)
        return self

    def get_schedule_handle(self, id: str) -> Engine:
        return self

    async def describe(self, **_: Any) -> ScheduleDescription:
        self.note("describe")
        return ScheduleDescription(
            id="nightly",
            schedule=self.schedule,
            info=ScheduleInfo(
                recent_slots=self.slots_found,
                open_slots=self.slots_found[:1],
                next_action_times=[AT, AT + timedelta(days=1)],
                created_at=AT,
                last_updated_at=None,
            ),
            user_id="ada",
            conflict_token=7,
            description="At 02:30",
            tzdata_version="2026f",
        )

    async def update(self, updater: Any, **_: Any) -> list[ScheduleSlot]:
        for _try in range(self.conflicts + 1):
            found = updater(ScheduleUpdateInput(await self.describe()))
        self.saved = found.schedule
        self.note("update")
        return [slot()]

    async def pause(self, *, note: str, **_: Any) -> list[ScheduleSlot]:
        self.note("pause", note)
        return [slot()]

    async def unpause(self, *, note: str, **_: Any) -> None:
        self.note("unpause", note)

    async def trigger(self, *, overlap: Any, **_: Any) -> ScheduleSlot:
        self.note("trigger", overlap)
        return slot(manual=True, detail="now")

    async def backfill(
        self, span: ScheduleBackfill, *, dry_run: bool = False, **_: Any
    ) -> ScheduleBackfillResult:
        self.note("backfill", span, dry_run)
        return ScheduleBackfillResult(action_times=[AT], fired_before=[AT, AT])

    async def delete(self, *, reason: str, **_: Any) -> list[ScheduleSlot]:
        self.note("delete", reason)
        return []

    async def slots(self, **options: Any) -> AsyncIterator[ScheduleSlot]:
        options.pop("rpc_timeout")
        self.note("slots", options)
        for one in self.slots_found:
            yield one

    async def list(self, **options: Any) -> AsyncIterator[ScheduleListDescription]:
        options.pop("rpc_timeout")
        self.note("list", options)
        for number in range(3):
            yield ScheduleListDescription(
                id=f"s-{number}",
                schedule=ScheduleListSchedule(
                    ScheduleListAction("report"), ScheduleListState("why", paused=number == 1)
                ),
                info=ScheduleListInfo(
                    next_action_times=[AT] if number else [],
                    last_slot_at=AT,
                    last_outcome=ScheduleSlotOutcome.SKIPPED if number else None,
                    created_at=AT,
                    last_updated_at=None,
                ),
                user_id="ada",
                description="At 02:30",
            )

    async def close(self) -> None: ...

    async def _ready(self, _: float) -> None: ...


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    client = Engine()

    async def connect(*_: Any, **__: Any) -> Engine:
        return client

    monkeypatch.setattr(Client, "connect", connect)
    return client


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, ["schedule", *words], input=input)


def created(engine: Engine, *options: str) -> Schedule:
    found = run("create", "nightly", *options)
    assert found.exit_code == 0, found.stderr
    assert engine.saved is not None
    return engine.saved


# ---- create

JOB = ("--task", "report")
CRON = ("--cron", "30 2 * * *")


def test_create_a_job_on_a_cron_and_see_when_it_comes(engine: Engine) -> None:
    found = run("create", "nightly", *CRON, *JOB, "-o", "json")

    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout) == {
        "schedule_id": "nightly",
        "description": "At 02:30",
        "next": "2026-11-30T02:30:00Z",
    }
    assert engine.saved == Schedule(
        ScheduleActionStartJob("report"), ScheduleSpec(cron_expressions=["30 2 * * *"])
    )
    assert engine.asked[0] == (
        "create",
        "nightly",
        {"trigger_immediately": False, "user_id": ""},
    )
    assert "At 02:30" in run("create", "nightly", *CRON, *JOB).stdout


def test_create_says_everything(engine: Engine) -> None:
    made = created(
        engine,
        *(*CRON, "--cron", "@hourly", "--interval", "6h/30m", "--interval", "1d"),
        *("--date", "2027-01-01T00:00:00Z", "--timezone", "Europe/Berlin", "--jitter", "30s"),
        *("--start", "2026-12-01", "--end", "2028-01-01T00:00:00+01:00", "--seconds-first"),
        *("--gap", "skip", "--repeated", "both", "--overlap", "buffer-one"),
        *("--calendar", '{"hour": 9}', "--calendar", '{"hour": 17, "dayOfWeek": "Fri"}'),
        *("--exclude", '{"month": 12, "dayOfMonth": 25, "comment": "Christmas"}'),
        *("--catch-up", "last", "--catch-up-window", "1h", "--catch-up-most", "5"),
        *("--pause-on-failure", "--remaining-actions", "3", "--note", "why", "--paused"),
        *("--task", "report", "--task-queue", "reports", "--timeout", "5m"),
        *("--parameters", '{"kind": "daily"}', "--user", "ada", "--trigger-immediately"),
    )

    assert made.spec == ScheduleSpec(
        cron_expressions=["30 2 * * *", "@hourly"],
        intervals=[
            ScheduleIntervalSpec(timedelta(hours=6), timedelta(minutes=30)),
            ScheduleIntervalSpec(timedelta(days=1)),
        ],
        dates=[datetime(2027, 1, 1, tzinfo=UTC)],
        calendars=[
            ScheduleCalendarSpec(hour=[ScheduleRange(9)]),
            ScheduleCalendarSpec(hour=[ScheduleRange(17)], day_of_week=[ScheduleRange(5)]),
        ],
        skip=[
            ScheduleCalendarSpec(
                second=[ScheduleRange(0, 59)],
                minute=[ScheduleRange(0, 59)],
                hour=[ScheduleRange(0, 23)],
                day_of_month=[ScheduleRange(25)],
                month=[ScheduleRange(12)],
                comment="Christmas",
            )
        ],
        time_zone_name="Europe/Berlin",
        jitter=timedelta(seconds=30),
        start_at=datetime(2026, 12, 1, tzinfo=UTC),
        end_at=datetime(2027, 12, 31, 23, tzinfo=UTC),
        seconds_first=True,
        gap=ScheduleGapPolicy.SKIP,
        repeat=ScheduleRepeatPolicy.BOTH,
    )
    assert made.policy == SchedulePolicy(
        overlap=ScheduleOverlapPolicy.BUFFER_ONE,
        catchup_window=timedelta(hours=1),
        catchup=ScheduleCatchUpPolicy.LAST,
        catchup_most=5,
        pause_on_failure=True,
    )
    assert made.state == ScheduleState(
        "why", paused=True, limited_actions=True, remaining_actions=3
    )
    job = made.action
    assert isinstance(job, ScheduleActionStartJob)
    assert (job.task, job.queue, job.timeout) == ("report", "reports", timedelta(minutes=5))
    (parameters,) = job.args
    assert (parameters.data, dict(parameters.metadata)) == (
        b'{"kind":"daily"}',
        {"parameters": b"object"},
    )
    assert engine.asked[0][2] == {"trigger_immediately": True, "user_id": "ada"}


def test_create_a_workflow(engine: Engine) -> None:
    made = created(
        engine,
        *("--interval", "1h", "--workflow-type", "Report", "--task-queue", "q"),
        *("--workflow-id", "report", "--input", '"daily"', "--input", "2", "--timeout", "1h"),
    )

    assert made.action == ScheduleActionStartWorkflow(
        "Report", args=["daily", 2], id="report", task_queue="q", run_timeout=timedelta(hours=1)
    )


def test_standard_input_is_read_once(engine: Engine) -> None:
    workflow = ("--workflow-type", "Report", "--task-queue", "q", "--input-file", "-")

    found = run("create", "nightly", *CRON, *workflow, input='{"kind": "daily"}')
    assert found.exit_code == 0, found.stderr
    assert isinstance(engine.saved.action, ScheduleActionStartWorkflow)  # type: ignore[union-attr]
    assert engine.saved.action.args == [{"kind": "daily"}]  # type: ignore[union-attr]

    engine.conflicts = 1
    found = run("update", "nightly", *workflow, input='"weekly"')
    assert found.exit_code == 0, found.stderr
    assert engine.saved.action.args == ["weekly"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (JOB, "say when"),
        (CRON, "say what"),
        ((*CRON, *JOB, "--workflow-type", "W"), "not both"),
        ((*CRON, "--workflow-type", "W"), "--task-queue"),
        ((*CRON, *JOB, "--input", "1"), "--parameters"),
        ((*CRON, *JOB, "--parameters", "[1]"), "JSON object"),
        ((*CRON, *JOB, "--parameters", "{"), "not JSON"),
        (
            (*CRON, "--workflow-type", "W", "--task-queue", "q", "--parameters", "{}"),
            "--input",
        ),
        ((*JOB, "--interval", "often"), "not a duration"),
        ((*JOB, "--interval", "1h/0s"), "longer than 0"),
        ((*JOB, "--date", "2h"), "not a time"),
        ((*JOB, *CRON, "--start", "soon"), "not a time"),
        ((*JOB, "--calendar", "9am"), "not a calendar"),
        ((*JOB, *CRON, "--exclude", '{"hours": 1}'), "no field"),
    ],
)
def test_a_mistake_is_told_before_anything_is_asked(
    engine: Engine, options: tuple[str, ...], message: str
) -> None:
    found = run("create", "nightly", *options)

    assert found.exit_code == 2
    assert message in found.stderr
    assert engine.asked == []


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (ScheduleAlreadyRunningError("nightly"), 1),
        (RPCError("schedule.spec.cron[0]: no", RPCStatusCode.INVALID_ARGUMENT), 2),
        (RPCError("no such schedule", RPCStatusCode.NOT_FOUND), 3),
        (RPCError("late", RPCStatusCode.DEADLINE_EXCEEDED), 5),
    ],
)
def test_how_it_ends_when_the_engine_refuses(
    engine: Engine, error: Exception, exit_code: int
) -> None:
    engine.error = error

    found = run("create", "nightly", *CRON, *JOB)

    assert found.exit_code == exit_code
    assert str(error) in found.stderr


# ---- update


def test_update_changes_what_is_said_and_nothing_else(engine: Engine) -> None:
    before = nightly()

    found = run("update", "nightly", "--overlap", "allow-all", "--timeout", "1m", "-o", "json")

    assert found.exit_code == 0, found.stderr
    assert engine.saved is not None
    assert engine.saved.spec == before.spec
    assert engine.saved.state == before.state
    assert engine.saved.policy == SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL)
    before.action.timeout = timedelta(minutes=1)  # type: ignore[attr-defined]  # a job's
    assert engine.saved.action == before.action
    assert "2026-11-30 02:30:00Z is still on its way" in found.stderr


def test_new_times_replace_all_that_there_were(engine: Engine) -> None:
    run("update", "nightly", "--interval", "1h", "--note", "")

    assert engine.saved is not None
    assert engine.saved.spec == ScheduleSpec(
        intervals=[ScheduleIntervalSpec(timedelta(hours=1))],
        cron_expressions=[],
        dates=[],
        calendars=[],
        time_zone_name="Europe/Berlin",
    )
    assert engine.saved.state.note == ""


def test_exclusions_are_replaced_and_taken_away_beside_the_times(engine: Engine) -> None:
    engine.schedule.spec.skip = [ScheduleCalendarSpec(comment="old")]
    before = nightly().spec

    run("update", "nightly", "--exclude", '{"hour": 12}')
    assert engine.saved is not None
    (excluded,) = engine.saved.spec.skip
    assert (list(excluded.hour), excluded.comment) == ([ScheduleRange(12)], None)
    assert engine.saved.spec.cron_expressions == before.cron_expressions

    run("update", "nightly", "--exclude", "none")
    assert engine.saved.spec == before


def test_a_new_task_replaces_the_whole_action(engine: Engine) -> None:
    run("update", "nightly", "--task", "other")

    assert engine.saved is not None
    assert engine.saved.action == ScheduleActionStartJob("other")


def test_an_update_that_changes_nothing_or_the_wrong_thing_is_refused(engine: Engine) -> None:
    nothing = run("update", "nightly")
    assert (nothing.exit_code, engine.asked) == (2, [])
    assert "say what to change" in nothing.stderr

    for mistake in (("--interval", "often"), ("--parameters", "[]"), ("--input", "{")):
        assert run("update", "nightly", *mistake).exit_code == 2
        assert engine.asked == [], "it is told before anything is asked"

    wrong = run("update", "nightly", "--input", "1")
    assert wrong.exit_code == 2
    assert "--parameters" in wrong.stderr
    assert engine.saved is None


# ---- looking


def test_describe_tells_times_in_words_and_each_slot_once(engine: Engine) -> None:
    found = run("describe", "nightly")

    assert found.exit_code == 0, found.stderr
    for told in ("At 02:30", "active", "made by hand", '["daily"]', "2026-12-01 02:30:00Z"):
        assert told in found.stdout
    assert found.stdout.count("job-1") == 1
    assert "headers" not in found.stdout, "what is not set is not shown"
    assert "\x1b" not in found.stdout

    document = json.loads(run("describe", "nightly", "-o", "json").stdout)
    assert document["description"] == "At 02:30"
    assert document["schedule"]["action"]["task"] == "report"
    assert document["schedule"]["action"]["args"] == ["daily"]
    assert document["schedule"]["policy"]["overlap"] == "SKIP"
    assert document["info"]["recent_slots"][0]["outcome"] == "FIRED"


def test_describe_one_of_a_workflow(engine: Engine) -> None:
    engine.schedule.action = ScheduleActionStartWorkflow("Report", task_queue="q")
    engine.schedule.state.paused = True

    found = run("describe", "nightly")

    assert "Report" in found.stdout
    assert "paused" in found.stdout


def test_list_in_lines_and_in_columns(engine: Engine) -> None:
    found = run("list", "--id-prefix", "s-", "--user", "ada", "--limit", "2", "-o", "json")

    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert [line["id"] for line in lines] == ["s-0", "s-1"]
    assert lines[1]["schedule"]["state"] == {"note": "why", "paused": True}
    assert "more than 2" in found.stderr
    assert engine.asked == [
        ("list", {"id_prefix": "s-", "user_id": "ada", "page_size": 3, "limit": 3})
    ]
    _, first, second, _ = run("list").stdout.splitlines()
    assert first.split() == ["s-0", "report", "active", "-", "-", "At", "02:30"]
    assert second.split()[:3] == ["s-1", "report", "paused"]
    assert "skipped" in second


def test_slots_tell_what_became_of_each(engine: Engine) -> None:
    found = run("slots", "nightly", "--outcome", "fired", "--outcome", "missed", "--limit", "1")

    assert found.exit_code == 0, found.stderr
    assert "job-1" in found.stdout
    assert "more than 1" in found.stderr
    ((_, options),) = engine.asked
    assert options["outcomes"] == [ScheduleSlotOutcome.FIRED, ScheduleSlotOutcome.MISSED]

    found = run("slots", "nightly", "--since", "2026-01-01", "--until", "2027-01-01", "-o", "json")
    assert [json.loads(line)["outcome"] for line in found.stdout.splitlines()] == [
        "FIRED",
        "MISSED",
    ]
    assert engine.asked[-1][1]["start_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert engine.asked[-1][1]["end_at"] == datetime(2027, 1, 1, tzinfo=UTC)


# ---- acting


def test_pause_and_unpause(engine: Engine) -> None:
    paused = run("pause", "nightly", "--note", "why")
    unpaused = run("unpause", "nightly")

    assert (paused.exit_code, unpaused.exit_code) == (0, 0)
    assert "still on its way" in paused.stderr
    assert engine.asked == [("pause", "why"), ("unpause", "")]


def test_trigger_shows_the_slot(engine: Engine) -> None:
    found = run("trigger", "nightly", "--overlap", "allow-all")

    assert engine.asked == [("trigger", ScheduleOverlapPolicy.ALLOW_ALL)]
    assert "triggered; now" in found.stdout
    assert json.loads(run("trigger", "nightly", "-o", "json").stdout)["job_id"] == "job-1"
    assert engine.asked[-1] == ("trigger", None)


SPAN = ("--from", "2026-11-29T00:00:00Z", "--to", "2026-11-30T00:00:00Z")


def test_backfill_counts_asks_and_acts(engine: Engine) -> None:
    span = ScheduleBackfill(
        datetime(2026, 11, 29, tzinfo=UTC),
        datetime(2026, 11, 30, tzinfo=UTC),
        ScheduleOverlapPolicy.BUFFER_ALL,
    )

    found = run("backfill", "nightly", *SPAN, "--overlap", "buffer-all", input="y\n")

    assert found.exit_code == 0, found.stderr
    assert "Act for 1 times of nightly?" in found.stderr
    assert engine.asked == [("backfill", span, True), ("backfill", span, False)]
    assert "2026-11-30 02:30:00Z" in found.stdout
    assert "2 had their action before" in found.stderr

    refused = run("backfill", "nightly", *SPAN, input="n\n")
    assert refused.exit_code == 1
    assert [one[2] for one in engine.asked] == [True, False, True]


def test_a_dry_run_only_shows(engine: Engine) -> None:
    found = run("backfill", "nightly", *SPAN, "--dry-run", "-o", "json")

    assert json.loads(found.stdout) == {
        "action_times": ["2026-11-30T02:30:00Z"],
        "fired_before": ["2026-11-30T02:30:00Z"] * 2,
    }
    assert [one[2] for one in engine.asked] == [True]
    run("backfill", "nightly", *SPAN, "--yes")
    assert [one[2] for one in engine.asked] == [True, True, False]


def test_delete_asks_first(engine: Engine) -> None:
    refused = run("delete", "nightly", input="n\n")
    assert refused.exit_code == 1
    assert "Delete nightly (At 02:30)?" in refused.stderr
    assert engine.asked == [("describe",)]

    assert run("delete", "nightly", "--reason", "old", input="y\n").exit_code == 0
    assert run("delete", "nightly", "--yes").exit_code == 0
    assert [one for one in engine.asked if one[0] == "delete"] == [
        ("delete", "old"),
        ("delete", ""),
    ]

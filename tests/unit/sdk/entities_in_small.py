"""An entity on a pocket engine, and what its tests ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.unit.sdk.engine_in_small import (
    PocketEngine,
    value_of,
)

from perdure import activity, workflow
from perdure._definitions import (
    Head,
    entity_definition,
    head_to_payload,
)
from perdure._failures import failure_to_exception
from perdure._replay import messages as m
from perdure.common import (
    RawValue,
)
from perdure.converter import DataConverter
from perdure.errors import ApplicationError

CONVERTER = DataConverter.default.payload_converter
LIMIT = timedelta(seconds=10)


@activity.defn
async def price(item: str) -> int:
    return len(item)


@dataclass
class Line:
    item: str
    n: int


@workflow.entity(calls_per_run=4)
class Cart:
    lines: dict[str, Line]
    tags: set[str]

    def __init__(self) -> None:
        self.lines = {}
        self.tags = set()
        self.log: list[str] = []

    @workflow.entity_handler
    def add(self, item: str, n: int = 1) -> int:
        self.lines.setdefault(item, Line(item, 0)).n += n
        self.tags.add(item)
        self.log.append(f"add {item}")
        return self.lines[item].n

    @workflow.entity_handler
    async def pay(self, item: str) -> int:
        """Reads, waits, writes: another handler in between would be seen in the log."""
        seen = len(self.log)
        self.log.append("begins")
        cost: int = await workflow.execute_activity(price, item, start_to_close_timeout=LIMIT)
        self.log.append(f"ends after {len(self.log) - seen}")
        return cost

    @workflow.entity_handler(name="go wrong")
    async def fail(self, how: str) -> None:
        self.lines.clear()
        await workflow.sleep(0)
        if how == "state":
            self.log = ("no", "list")  # type: ignore[assignment]
        elif how == "result":
            return object()  # type: ignore[return-value]
        elif how == "continue":
            workflow.continue_as_new()
        else:
            raise ApplicationError(how, type="Wrong")
        return None

    @workflow.entity_handler
    def grow(self, size_bytes: int) -> None:
        self.log = ["x" * size_bytes]

    @workflow.entity_handler
    def who(self) -> tuple[str, str, str]:
        info = workflow.current_update_info()
        assert info is not None
        return workflow.entity_key(), info.id, info.name

    @workflow.entity_handler
    def note(self, text: str) -> None:
        self.log.append(text[:10])

    @workflow.entity_reader
    def total(self) -> int:
        return sum(line.n for line in self.lines.values())

    @workflow.entity_reader
    def history(self, last: int = 100) -> list[str]:
        shown = self.log[-last:]
        self.log.clear()  # of its own object
        return shown


def new_key(cls: type) -> PocketEngine:
    """As a client begins it."""
    head = Head(calls_per_run=entity_definition(cls).calls_per_run)
    return PocketEngine(cls, RawValue(head_to_payload(head)))


def began(cls: type = Cart) -> PocketEngine:
    run = new_key(cls)
    run.task()
    return run


def same_on_replay(run: PocketEngine) -> None:
    outcome = run.replay_all()
    assert isinstance(outcome, m.TaskSuccess), outcome.failure


def outcome_of(run: PocketEngine, call_id: str, hint: Any = Any) -> Any:
    return value_of(run.outcomes[call_id].result, hint)


def error_of(run: PocketEngine, call_id: str) -> BaseException:
    failure = run.outcomes[call_id].failure
    assert failure is not None
    return failure_to_exception(failure, CONVERTER)


def ask(run: PocketEngine, reader: str, *args: Any) -> Any:
    given = CONVERTER.to_payloads(args)
    query = m.Query(query_token=b"q", query_type=reader, args=given, header={})
    outcome = run.instance.activate(run.message([], queries=[query], query_only=True))
    assert isinstance(outcome, m.TaskSuccess)
    (result,) = outcome.query_results
    assert result.failure is None, result.failure
    return value_of(result.result)


def turned(commands: Sequence[m.Command], cls: type = Cart) -> PocketEngine:
    """The run that follows."""
    last = commands[-1]
    assert isinstance(last, m.ContinueAsNew), commands
    run = PocketEngine(cls)
    run.events = []
    run.add(m.WorkflowExecutionStarted, **{**STARTED, "input": last.input})
    return run


STARTED = {
    name: getattr(PocketEngine(Cart).events[0], name)
    for name in m.WorkflowExecutionStarted.__struct_fields__
    if name not in ("event_id", "time_us")
}

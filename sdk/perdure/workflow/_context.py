"""What workflow code can ask about its run and itself: always the same answer on each replay."""

from __future__ import annotations

import logging
import random as random_module  # noqa: TID251 - only the type: the object is seeded by the run id
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, overload
from uuid import UUID

from perdure._logs import InfoLoggerAdapter
from perdure._payload import Payload
from perdure._replay.loop import DeterministicLoop
from perdure._replay.memo import memo_of
from perdure._replay.memo import upsert_memo as change_memo
from perdure._replay.run import WorkflowRun, current_run
from perdure._replay.updates import current_update
from perdure.common import (
    Priority,
    RetryPolicy,
    SearchAttributeUpdate,
    TypedSearchAttributes,
    WorkerDeploymentVersion,
)

_T = TypeVar("_T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID7_RANDOM_BITS = 74


@dataclass(frozen=True, slots=True)
class ParentInfo:
    """Whose child a run is."""

    namespace: str
    run_id: str
    workflow_id: str


@dataclass(frozen=True, slots=True)
class RootInfo:
    """The first of all parents above a run."""

    run_id: str
    workflow_id: str


# No slots: programs that report errors take `info().__dict__` along.
@dataclass(frozen=True, kw_only=True)
class Info:
    """What is known of the run. The `get_…` and `is_…` methods change from task to task."""

    attempt: int
    continued_run_id: str | None
    cron_schedule: str | None
    execution_timeout: timedelta | None
    first_execution_run_id: str
    headers: Mapping[str, Payload]
    namespace: str
    parent: ParentInfo | None
    """None: it is nobody's child."""
    priority: Priority
    raw_memo: Mapping[str, Payload]
    retry_policy: RetryPolicy | None
    root: RootInfo | None
    """None: there is nobody above it."""
    run_id: str
    run_timeout: timedelta | None
    start_time: datetime
    task_queue: str
    task_timeout: timedelta
    typed_search_attributes: TypedSearchAttributes
    workflow_id: str
    workflow_start_time: datetime
    workflow_type: str

    def get_current_history_length(self) -> int:
        return current_run().history_length

    def get_current_history_size(self) -> int:
        run = current_run()
        run.asked_history_size = True
        return run.history_size_bytes

    def is_continue_as_new_suggested(self) -> bool:
        return current_run().suggest_continue_as_new

    def get_current_build_id(self) -> str:
        """Of the worker that runs, or ran, the present workflow task."""
        return current_run().version[1]

    def get_current_deployment_version(self) -> WorkerDeploymentVersion | None:
        """The same, with its deployment; None: the worker takes tasks of no version."""
        deployment_name, build_id = current_run().version
        return WorkerDeploymentVersion(deployment_name, build_id) if deployment_name else None


def info() -> Info:
    run = current_run()
    return info_of(run) if run.outbound is None else run.outbound.info()


def info_of(run: WorkflowRun) -> Info:
    """What `info` says behind all interceptors."""
    known: Info | None = run.info
    if known is None:
        known = run.info = _info(run)
    return known


def _info(run: WorkflowRun) -> Info:
    started = run.started
    assert started is not None
    start_time = _instant(started.time_us)
    parents = started.parents
    return Info(
        attempt=started.attempt,
        continued_run_id=started.continued_from_run_id or None,
        cron_schedule=started.cron_schedule or None,
        execution_timeout=_duration(started.execution_timeout_ms),
        first_execution_run_id=started.first_run_id,
        headers=started.header,
        namespace=run.namespace,
        parent=(
            None
            if parents is None
            else ParentInfo(run.namespace, parents.parent_run_id, parents.parent_workflow_id)
        ),
        priority=Priority(priority_key=started.priority or None),
        raw_memo=memo_of(run),
        retry_policy=started.retry_policy,
        root=(None if parents is None else RootInfo(parents.root_run_id, parents.root_workflow_id)),
        run_id=started.run_id,
        run_timeout=_duration(started.run_timeout_ms),
        start_time=start_time,
        task_queue=started.task_queue,
        task_timeout=timedelta(milliseconds=started.task_timeout_ms),
        typed_search_attributes=run.search_attributes,
        workflow_id=started.workflow_id,
        workflow_start_time=start_time,
        workflow_type=started.workflow_type,
    )


def extern_functions() -> Mapping[str, Callable[..., Any]]:
    """What the worker's interceptors left in `WorkflowInterceptorClassInput` for use from here."""
    interception = current_run().interception
    return {} if interception is None else interception.extern_functions


def in_workflow() -> bool:
    try:
        current_run()
    except RuntimeError:
        return False
    return True


def instance() -> Any:
    """The workflow object."""
    return current_run().workflow


def now() -> datetime:
    """The time at which the present workflow task started, in UTC: it stands still in between."""
    return _instant(current_run().now_us)


def time() -> float:
    """`now` in seconds since 1970."""
    return current_run().now_us / 1e6


def time_ns() -> int:
    return current_run().now_us * 1000


def random() -> random_module.Random:
    """The run's own generator, seeded by its id."""
    run = current_run()
    run.check_may_act()
    return run.randomness.own()


def new_random() -> random_module.Random:
    """Another generator, seeded by the run's own: what is drawn from it does not change what others
    draw."""
    run = current_run()
    run.check_may_act()
    return run.randomness.another()


def uuid4() -> UUID:
    return UUID(int=random().getrandbits(128), version=4)


def uuid7() -> UUID:
    """Begins with `now` in milliseconds, so that later ones sort behind; the rest is random."""
    drawn = random().getrandbits(_UUID7_RANDOM_BITS)
    # RFC 9562: 48 bits of time, the version, 12 random bits, the variant, 62 random bits.
    above, below = drawn >> 62, drawn & ((1 << 62) - 1)
    now_ms = current_run().now_us // 1000
    return UUID(int=now_ms << 80 | 7 << 76 | above << 64 | 0b10 << 62 | below)


def memo() -> Mapping[str, Any]:
    """The memo's values, decoded without hints; see `memo_value`."""
    run = current_run()
    return {key: run.converter.from_payload(value) for key, value in memo_of(run).items()}


def upsert_memo(updates: Mapping[str, Any]) -> None:
    """Changes the run's memo, for the code at once and for lists with the workflow task.

    None takes a name away. Raises PayloadEncodeError for values that cannot travel.
    """
    run = current_run()
    encode = run.converter.to_payload
    changes = {name: None if one is None else encode(one) for name, one in updates.items()}
    if changes:
        change_memo(run, changes)


_MISSING: Any = object()


@overload
def memo_value(key: str, default: Any = ..., *, type_hint: None = None) -> Any: ...


@overload
def memo_value(key: str, default: _T = ..., *, type_hint: type[_T]) -> _T: ...


def memo_value(key: str, default: Any = _MISSING, *, type_hint: Any = None) -> Any:
    """KeyError when there is none and no default."""
    run = current_run()
    payload = memo_of(run).get(key)
    if payload is not None:
        return run.converter.from_payload(payload, type_hint or Any)
    if default is _MISSING:
        raise KeyError(f"memo has no {key!r}")
    return default


def upsert_search_attributes(attributes: Sequence[SearchAttributeUpdate[Any]]) -> None:
    """Lists show them from the end of this workflow task on, `info()` at once.

    Made by `value_set` and `value_unset` of a `SearchAttributeKey`.
    """
    updates: list[Any] = list(attributes)
    if not updates:
        return
    if not all(isinstance(update, SearchAttributeUpdate) for update in updates):
        raise TypeError("search attributes are upserted as key.value_set(…) or key.value_unset()")
    names = {update.key.name for update in updates}
    if len(names) != len(updates):
        raise ValueError("a search attribute is given twice")
    current_run().upsert_search_attributes(updates)


def payload_converter() -> Any:
    return current_run().converter


def all_handlers_finished() -> bool:
    """Has every signal and update handler that began ended? A run that ends before cuts them off."""
    run = current_run()
    return not run.signals.running and not run.updates.running


def cancellation_reason() -> str | None:
    """What the request to cancel gave as its reason; None while there is none."""
    run = current_run()
    return run.cancel_reason if run.cancel_requested else None


def current_loop() -> DeterministicLoop:
    return current_run().loop


def _instant(instant_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant_us)


def _duration(duration_ms: int) -> timedelta | None:
    return timedelta(milliseconds=duration_ms) if duration_ms else None


class LoggerAdapter(InfoLoggerAdapter):
    """Says nothing on replay, where it has been said before, unless `log_during_replay`.

    What a workflow task says that fails, or that a signal overtakes while the worker goes ahead, is
    said again by the one that counts, or is of a way that the run did not take: logs are no record.

    Adds which run speaks: to the message for people (`workflow_info_on_message`), as the dict
    `perdure_workflow` of the record for machines (`workflow_info_on_extra`), and if wanted as all
    of `info()`, the record's `workflow_info` (`full_workflow_info_on_extra`).
    """

    def __init__(self, logger: logging.Logger, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(logger, extra)
        self.workflow_info_on_message = True
        self.workflow_info_on_extra = True
        self.full_workflow_info_on_extra = False
        self.log_during_replay = False

    def isEnabledFor(self, level: int) -> bool:
        if not self.log_during_replay and in_workflow() and current_run().silent:
            return False
        return super().isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        if not in_workflow():
            return msg, kwargs
        known = info_of(current_run())
        fields = {
            "attempt": known.attempt,
            "namespace": known.namespace,
            "run_id": known.run_id,
            "task_queue": known.task_queue,
            "workflow_id": known.workflow_id,
            "workflow_type": known.workflow_type,
        }
        update = current_update.get()
        if update is not None:
            fields |= {"update_id": update.id, "update_name": update.name}
        added: dict[str, Any] = {}
        if self.workflow_info_on_extra:
            added["perdure_workflow"] = fields
        if self.full_workflow_info_on_extra:
            added["workflow_info"] = known
        kwargs["extra"] = self.with_info(kwargs, added)
        return f"{msg} ({fields})" if self.workflow_info_on_message else msg, kwargs


logger = LoggerAdapter(logging.getLogger("perdure.workflow"))

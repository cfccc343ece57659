"""`create`: one job, now or at a time."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import optional_duration, parse_time
from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.job.group import app
from perdure.cli.jsonable import to_jsonable
from perdure.cli.parameters import InputFiles, Inputs
from perdure.cli.session import Session, connected
from perdure.common import Priority, RetryPolicy

if TYPE_CHECKING:
    from perdure.job import JobOptions

PRIORITY_MAX = 5


class Scope(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    PERIOD = "period"


class KeyPolicy(StrEnum):
    QUEUE = "queue"
    CANCEL_NEWEST = "cancel-newest"
    CANCEL_RUNNING = "cancel-running"


Named = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter",
        "-p",
        help="A parameter by its name; again for the next. A value that is no JSON is a text.",
        metavar="NAME=VALUE",
    ),
]
Task = Annotated[str, typer.Argument(help="The function's name.", show_default=False)]
Queue = Annotated[str, typer.Option("--queue", "-q", help="The queue its workers poll.")]
At = Annotated[str | None, typer.Option(help="When it is due.", metavar="TIME")]
Delay = Annotated[str | None, typer.Option(help="Or how long from now.", metavar="DURATION")]
User = Annotated[str, typer.Option("--user", help="Whose it is.")]
AttemptTimeout = Annotated[
    str | None, typer.Option("--timeout", help="Of one attempt.", metavar="DURATION")
]
Attempts = Annotated[int | None, typer.Option(min=0, help="3 unless given; 0: without limit.")]
PriorityKey = Annotated[
    int | None, typer.Option(min=1, max=PRIORITY_MAX, help="1 goes first; 3 unless given.")
]
IdempotencyKey = Annotated[str, typer.Option(help="The same again is the same job.")]
UniqueKey = Annotated[str, typer.Option(help="While a job of it lives, none is made.")]
UniqueScopeName = Annotated[Scope, typer.Option(help="How long one counts as live.")]
UniquePeriod = Annotated[
    str | None, typer.Option(help="With the scope period.", metavar="DURATION")
]
ConcurrencyKey = Annotated[str, typer.Option(help="Of it only so many run at a time.")]
Expires = Annotated[str | None, typer.Option(help="Not started by then: skipped.", metavar="TIME")]
WaitForIt = Annotated[bool, typer.Option("--wait", help="Wait for its end, print its result.")]


@connected(app, "create")
async def create(
    session: Session,
    task: Task,
    parameter: Named = None,
    input: Inputs = None,
    input_file: InputFiles = None,
    queue: Queue = "default",
    at: At = None,
    delay: Delay = None,
    user: User = "",
    attempt_timeout: AttemptTimeout = None,
    maximum_attempts: Attempts = None,
    priority: PriorityKey = None,
    idempotency_key: IdempotencyKey = "",
    unique_key: UniqueKey = "",
    unique_scope: UniqueScopeName = Scope.ACTIVE,
    unique_period: UniquePeriod = None,
    concurrency_key: ConcurrencyKey = "",
    concurrency_limit: Annotated[int, typer.Option(min=1)] = 1,
    concurrency_policy: Annotated[KeyPolicy, typer.Option()] = KeyPolicy.QUEUE,
    expires: Expires = None,
    wait: WaitForIt = False,
) -> None:
    """Make a job. When this returns it is saved; with --wait it has ended, too."""
    if at is not None and delay is not None:
        raise UsageError("give --at or --delay, not both")
    options: JobOptions = {
        "queue": queue,
        "user_id": user,
        "run_at": None if at is None else parse_time(at),
        "delay": optional_duration(delay),
        "timeout": optional_duration(attempt_timeout),
        "expires_at": None if expires is None else parse_time(expires),
        "idempotency_key": idempotency_key,
    }
    if maximum_attempts is not None:
        options["retry_policy"] = RetryPolicy(maximum_attempts=maximum_attempts)
    if priority is not None:
        options["priority"] = Priority(priority_key=priority)
    _add_keys(options, unique_key, unique_scope, unique_period)
    _add_concurrency(options, concurrency_key, concurrency_limit, concurrency_policy)
    args = _arguments(parameter or (), read_inputs(input or (), input_file or ()))
    await _make(session, task, args, options, wait=wait)


async def _make(
    session: Session, task: str, args: Sequence[Any], options: JobOptions, *, wait: bool
) -> None:
    client = await session.connect()
    handle = await client.jobs.create(task, args=args, rpc_timeout=session.call_timeout, **options)
    if wait:
        with session.out.waiting(f"Waiting for {handle.id}; Ctrl-C leaves it running"):
            value = await handle.result()
        session.out.document(to_jsonable(value, client.core.decode_or_keep))
        return
    if session.out.is_json:
        session.out.document({"job_id": handle.id, "created": handle.created})
        return
    session.out.line(handle.id)
    if not handle.created:
        session.out.note("It was there already.")


def _add_keys(options: JobOptions, key: str, scope: Scope, period: str | None) -> None:
    from perdure.job import UniqueScope

    if (scope is Scope.PERIOD) != (period is not None):
        raise UsageError("--unique-period goes with --unique-scope period")
    if key:
        options["unique_key"] = key
        options["unique_scope"] = UniqueScope[scope.name]
        options["unique_period"] = optional_duration(period)


def _add_concurrency(options: JobOptions, key: str, limit: int, policy: KeyPolicy) -> None:
    from perdure.job import Concurrency, ConcurrencyPolicy

    if key:
        chosen = ConcurrencyPolicy[policy.name]
        options["concurrency"] = Concurrency(key=key, limit=limit, policy=chosen)


def _arguments(named: Sequence[str], positional: list[Any]) -> list[Any]:
    """Raises UsageError."""
    from perdure._definitions.parameters import object_of_parameters
    from perdure.common import RawValue
    from perdure.converter import PayloadConverter

    if not named:
        return positional
    if positional:
        raise UsageError("give --parameter or --input, not both")
    parameters: dict[str, Any] = {}
    for entry in named:
        name, separator, text = entry.partition("=")
        if not separator or not name:
            raise UsageError(f"--parameter must be NAME=VALUE: {entry!r}")
        parameters[name] = _value(text)
    payload = PayloadConverter.default.to_payload(parameters)
    return [RawValue(object_of_parameters(payload))]


def _value(text: str) -> Any:
    """JSON, or else the text itself: `-p to=ada@example.org`."""
    try:
        (value,) = read_inputs((text,), ())
    except UsageError:
        return text
    return value

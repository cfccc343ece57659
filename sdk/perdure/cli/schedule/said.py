"""What `create` and `update` are told: one option for each field of `Said`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, get_type_hints

import typer

from perdure.cli.inputs import read_inputs
from perdure.cli.parameters import InputFiles, Inputs
from perdure.cli.schedule.options import CALENDAR, DATE, EXCLUDE, INTERVAL, Overlap
from perdure.cli.schedule.previewing import Gap
from perdure.cli.schedule.previewing import Overlap as Repeated
from perdure.cli.session import Session


class CatchUp(StrEnum):
    ALL = "all"
    LAST = "last"
    NONE = "none"


def _option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, show_default=False, **more)


@dataclass(frozen=True, kw_only=True)
class Said:
    """None: nothing was said."""

    # when
    cron: Annotated[
        list[str] | None,
        _option("--cron", help="Five fields, or @hourly …; again for more.", metavar="EXPRESSION"),
    ] = None
    interval: Annotated[list[str] | None, INTERVAL] = None
    date: Annotated[list[str] | None, DATE] = None
    calendar: Annotated[list[str] | None, CALENDAR] = None
    exclude: Annotated[list[str] | None, EXCLUDE] = None
    timezone: Annotated[
        str | None,
        _option(
            "--timezone",
            help="Whose clock --cron and --calendar go by; UTC unless given.",
            metavar="ZONE",
        ),
    ] = None
    jitter: Annotated[
        str | None,
        _option(
            "--jitter",
            help="Begin up to so much later, always the same for one time.",
            metavar="DURATION",
        ),
    ] = None
    start: Annotated[
        str | None, _option("--start", help="No time before this one.", metavar="TIME")
    ] = None
    end: Annotated[str | None, _option("--end", help="No time after this one.", metavar="TIME")] = (
        None
    )
    seconds_first: Annotated[
        bool | None,
        _option(
            "--seconds-first/--no-seconds-first",
            help="--cron has six fields: the first are the seconds.",
        ),
    ] = None
    gap: Annotated[
        Gap | None, _option("--gap", help="What becomes of a fixed time that the clocks skip.")
    ] = None
    repeated: Annotated[
        Repeated | None,
        _option("--repeated", help="When a fixed time comes that the clocks show twice."),
    ] = None
    # how
    overlap: Annotated[
        Overlap | None,
        _option("--overlap", help="When an earlier action still runs; skip unless given."),
    ] = None
    catch_up: Annotated[
        CatchUp | None,
        _option("--catch-up", help="Which missed times are made up for; all unless given."),
    ] = None
    catch_up_window: Annotated[
        str | None,
        _option(
            "--catch-up-window",
            help="How late an action may come; a year unless given.",
            metavar="DURATION",
        ),
    ] = None
    catch_up_most: Annotated[
        int | None,
        _option(
            "--catch-up-most", min=1, help="The most that are made up for; 1,000 unless given."
        ),
    ] = None
    pause_on_failure: Annotated[
        bool | None,
        _option(
            "--pause-on-failure/--no-pause-on-failure",
            help="Pause when an action has failed for good.",
        ),
    ] = None
    remaining_actions: Annotated[
        int | None,
        _option("--remaining-actions", min=0, help="Only so many more; any number unless given."),
    ] = None
    note: Annotated[str | None, _option("--note", help="For people.")] = None
    # what
    task: Annotated[str | None, _option("--task", help="Make a job of this task.")] = None
    parameters: Annotated[
        str | None,
        _option("--parameters", help="The job's, by name: a JSON object.", metavar="JSON"),
    ] = None
    workflow_type: Annotated[
        str | None, _option("--workflow-type", help="Or start a workflow of this type.")
    ] = None
    workflow_id: Annotated[
        str | None,
        _option(
            "--workflow-id",
            help="Each run's id is this and the time; the schedule's id unless given.",
        ),
    ] = None
    input: Inputs = None
    input_file: InputFiles = None
    task_queue: Annotated[
        str | None,
        _option(
            "--task-queue", "-q", help='The queue its workers poll; of jobs "default" unless given.'
        ),
    ] = None
    timeout: Annotated[
        str | None,
        _option("--timeout", help="Of an attempt of the job, or of a run.", metavar="DURATION"),
    ] = None

    @property
    def is_nothing(self) -> bool:
        return self == Said()

    @property
    def has_times(self) -> bool:
        return bool(self.cron or self.interval or self.date or self.calendar)

    @property
    def has_inputs(self) -> bool:
        return bool(self.input or self.input_file)

    @cached_property
    def inputs(self) -> Sequence[Any]:
        """Read once: standard input cannot be read again. Raises UsageError."""
        return read_inputs(self.input or (), self.input_file or ())


def spread(body: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The same command with the fields of `Said` for its parameter `said`."""
    hints = get_type_hints(Said, include_extras=True)
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(Said)
    ]

    async def command(session: Session, **values: Any) -> None:
        said = Said(**{option.name: values.pop(option.name) for option in options})
        await body(session, said=said, **values)

    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(body, eval_str=True).parameters.values():
        parameters += options if one.name == "said" else [one]
    setattr(command, "__signature__", inspect.Signature(_keywords(parameters)))  # noqa: B010 - mypy
    command.__doc__ = body.__doc__
    return command


def _keywords(parameters: Sequence[inspect.Parameter]) -> Sequence[inspect.Parameter]:
    first, *others = parameters
    return [first, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in others)]

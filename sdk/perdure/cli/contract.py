"""`perdure contract`: does this code still do what runs and activities have done before?"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.errors import ExitCode, UsageError
from perdure.cli.files import read_text_file
from perdure.cli.jsonable import to_jsonable
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure._client.history import WorkflowHistory
    from perdure.converter import DataConverter
    from perdure.testing._contract import Difference

app = typer.Typer(
    name="contract",
    help="Check code against what was recorded.",
    no_args_is_help=True,
)

LIMIT_DEFAULT = 100
HISTORY_BYTES_MAX = 256 * 1024 * 1024  # five times the largest history, as JSON

Modules = Annotated[
    list[str],
    typer.Option(
        "--workflows",
        "-w",
        help="Where the workflows are: my.module, path/to/file.py; again for more.",
        metavar="MODULE",
        show_default=False,
    ),
]


@connected(app, "verify")
async def verify(
    session: Session,
    workflows: Modules,
    activities: Annotated[
        list[str] | None,
        typer.Option(
            "--activities",
            "-a",
            help="Where activities are: those marked pure are run again, and compared.",
            metavar="MODULE",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", help="Of which runs; of all of these workflows unless given."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", help="A history as JSON, instead of an engine; again for more."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many runs.")] = LIMIT_DEFAULT,
    data_converter: Annotated[
        str | None,
        typer.Option(help="What reads encoded payloads.", metavar="MODULE:NAME"),
    ] = None,
) -> None:
    """Replay recorded runs with this code, and run pure activities again; report each difference.

    Exits with 1 when there is one.
    """
    from perdure.converter import DataConverter
    from perdure.testing._contract import ContractCheck, activities_of, workflows_of

    if file and query is not None:
        raise UsageError("give --file or --query, not both")
    classes = [one for name in workflows for one in workflows_of(load_module(name))]
    functions = [one for name in activities or () for one in activities_of(load_module(name))]
    if not classes:
        raise UsageError(f"no workflow is defined in {', '.join(workflows)}")
    converter = DataConverter.default
    if data_converter is not None:
        converter = _data_converter(data_converter)
    try:
        check = ContractCheck(classes, functions, data_converter=converter)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    differences = 0
    async for history in (
        _from_files(file[:limit])
        if file
        else _from_engine(session, query, check.workflow_types, limit)
    ):
        for difference in await check.verify(history):
            differences += 1
            _print(session, difference)
    _summarize(session, check.counts, differences)
    if differences:
        raise typer.Exit(ExitCode.ERROR)


async def _from_files(paths: list[Path]) -> AsyncIterator[WorkflowHistory]:
    from perdure._client.history import WorkflowHistory

    for path in paths:
        text = read_text_file(path, HISTORY_BYTES_MAX)
        try:
            yield WorkflowHistory.from_json(path.stem, text)
        except ValueError as error:
            raise UsageError(f"{path} is no history: {error}") from None


async def _from_engine(
    session: Session, query: str | None, types: list[str], limit: int
) -> AsyncIterator[WorkflowHistory]:
    client = await session.connect()
    if query is None:
        quoted = ", ".join(
            "'" + one.replace("\\", "\\\\").replace("'", "''") + "'" for one in types
        )
        query = f"WorkflowType IN ({quoted})" if types else None
    async for run in client.list_workflows(query, limit=limit, rpc_timeout=session.call_timeout):
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        yield await handle.fetch_history(rpc_timeout=session.call_timeout)


def _print(session: Session, difference: Difference) -> None:
    if session.out.is_json:
        session.out.json_line(to_jsonable(difference, lambda payload: payload))
        return
    event = f"event {difference.event_id}: " if difference.event_id else ""
    session.out.line(f"{difference.workflow_id} (run {difference.run_id}): {event}", "bold")
    session.out.line(f"    {difference.kind.value}: {difference.message}", "red")
    if difference.site:
        session.out.line(f"    at {difference.site}")


def _summarize(session: Session, counts: dict[str, int], differences: int) -> None:
    told = ", ".join(f"{number} {name}" for name, number in counts.items())
    session.out.note(f"{told}: {differences or 'no'} difference{'' if differences == 1 else 's'}")


def load_module(name: str) -> ModuleType:
    """By its dotted name, also from the current folder, or by its path. Raises UsageError."""
    try:
        if name.endswith(".py"):
            return _load_file(Path(name))
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(name)
    except Exception as error:  # whatever the user's module raises as it is loaded
        raise UsageError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as an import would: types are looked up there
    spec.loader.exec_module(module)
    return module


def _data_converter(text: str) -> DataConverter:
    from perdure.converter import DataConverter

    module, _, attribute = text.partition(":")
    found: Any = getattr(load_module(module), attribute, None)
    if not isinstance(found, DataConverter):
        raise UsageError(f"{text} is no DataConverter (MODULE:NAME)")
    return found

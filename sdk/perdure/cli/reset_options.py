"""Where a reset goes to, and what it applies again: options of `workflow reset` and `batch start`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from perdure.cli.errors import UsageError
from perdure.common import ResetReapplyExcludeType, ResetType


class ResetTo(StrEnum):
    FIRST_WORKFLOW_TASK = "first-workflow-task"
    LAST_WORKFLOW_TASK = "last-workflow-task"
    BUILD_ID = "build-id"


Type = Annotated[
    ResetTo | None, typer.Option("--type", "-t", help="Which workflow task a reset goes to.")
]
BuildId = Annotated[
    str, typer.Option(help="Of a reset: to the first workflow task that this build completed.")
]
Exclude = Annotated[
    str,
    typer.Option(
        "--reapply-exclude",
        help="What came in after the point of a reset and is not applied again: signal, update; all.",
    ),
]


def type_of(type: ResetTo | None, build_id: str) -> ResetType | None:
    """`--build-id` alone says `--type build-id`. Raises UsageError for a pair that does not fit."""
    if build_id and type is None:
        type = ResetTo.BUILD_ID
    if bool(build_id) != (type is ResetTo.BUILD_ID):
        raise UsageError("--build-id belongs to --type build-id")
    return None if type is None else ResetType[type.name]


def excluded(text: str) -> list[ResetReapplyExcludeType]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return list(ResetReapplyExcludeType)
    known = {one.name.lower(): one for one in ResetReapplyExcludeType}
    for word in words:
        if word not in known:
            raise UsageError(f"--reapply-exclude: {word!r} is none of signal, update, all")
    return [known[word] for word in words]

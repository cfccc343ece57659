"""Where in the user's code something was asked for, or waits.

Found for every command, needed for hardly any: what is kept is the code object and an offset, and
the line is looked up when an error has to name it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any, NamedTuple

_PERDURE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_SITE_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

# By file name, because asking the path anew for each frame of each command would cost more than
# the command. As many entries as the program has files.
_is_foreign: dict[str, bool] = {}


class CallSite(NamedTuple):
    code: CodeType
    offset: int

    def __str__(self) -> str:
        lines = [position[0] for position in self.code.co_positions()]
        # Two bytes an instruction; -1 is a function that has not begun.
        index = self.offset // 2
        line = lines[index] if 0 <= index < len(lines) else None
        where = f"{self.code.co_filename}:{line or self.code.co_firstlineno}"
        return f"{where} in {self.code.co_qualname}"


def frame_above(depth: int) -> FrameType:
    """Of the caller (0), of its caller (1), …"""
    return sys._getframe(depth + 1)  # pyright: ignore[reportPrivateUsage]  # documented all the same


def is_users(filename: str) -> bool:
    """Not ours, not the standard library's."""
    foreign = _is_foreign.get(filename)
    if foreign is None:
        foreign = _is_foreign[filename] = filename.startswith((_PERDURE, "<frozen ")) or (
            filename.startswith(_STDLIB) and not any(one in filename for one in _SITE_PACKAGES)
        )
    return not foreign


def call_site(boundary: CodeType) -> CallSite | None:
    """The innermost frame of the user's above us, looking no further than `boundary`'s frame."""
    frame: FrameType | None = frame_above(1)
    while frame is not None:
        code = frame.f_code
        # Ten frames a command are ours, and known: they are not worth a call each.
        if not _is_foreign.get(code.co_filename, False) and is_users(code.co_filename):
            return CallSite(code, frame.f_lasti)
        if code is boundary:
            return None
        frame = frame.f_back
    return None


def waiting_at(task: asyncio.Task[Any]) -> list[CallSite]:
    """The frames of a suspended task, outermost first, ours left out."""
    sites: list[CallSite] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None)
        if frame is not None and is_users(frame.f_code.co_filename):
            sites.append(CallSite(frame.f_code, frame.f_lasti))
        awaited = getattr(awaited, "cr_await", None)
    return sites

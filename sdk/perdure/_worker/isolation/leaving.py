"""How a process that was there for one task ends: at once."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn


def leave(leaving: SystemExit) -> NoReturn:
    """What the task has begun besides could keep the process from ending for ever, and what the
    program would do after its worker is not for this process to do."""
    code = leaving.code
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)

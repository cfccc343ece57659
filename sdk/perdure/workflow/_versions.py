"""Changing workflow code while runs of the old code are open."""

from __future__ import annotations

from perdure._replay.patches import patched as _patched
from perdure._replay.run import current_run


def patched(id: str) -> bool:
    """Does this run go the new way? Put the new code under it, the old code beside it.

    True in runs that come here for the first time, which a marker in the history remembers; False in
    those whose history was written without the patch. The same answer for the whole run.
    """
    return _patched(current_run(), id, deprecated=False)


def deprecate_patch(id: str) -> None:
    """Says that no open run needs the old way any more, and takes the place of `patched`.

    When no open run was begun by code with `patched` either, this call can go, too.
    """
    _patched(current_run(), id, deprecated=True)

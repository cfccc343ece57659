"""What the archive needs of an object store. Three stand behind it; one conformance suite holds all.

Names are paths of ASCII with "/" between folders. Every method may raise ports.archive.ArchiveUnavailable.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Missing(Exception):
    """There is no such object, or no longer."""


class Found(NamedTuple):
    name: str
    size: int


class Objects(Protocol):
    async def put(self, name: str, content: bytes) -> None:
        """All of it or none, in place of what was there; on disk when this returns."""
        ...

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """`size` bytes from `start`, fewer where the object ends; None: to its end. Raises Missing."""
        ...

    async def contents(self, folder: str, after: str = "", limit: int | None = None) -> list[Found]:
        """What lies in a folder without folders, by name, past the name `after` in it; the first `limit`. No folder:
        nothing."""
        ...

    async def folders(self, folder: str) -> list[str]:
        """The names of the folders directly in a folder, in order."""
        ...

    async def delete(self, names: list[str]) -> None:
        """What is not there is no error."""
        ...

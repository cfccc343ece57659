"""Objects as files below a folder. Each is written beside its place and then moved there, synced before and after:
the run leaves the database next."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import TypeVar

from perdure_engine.ports.archive import ArchiveUnavailable
from perdure_engine.store.archive.objects import Found, Missing

T = TypeVar("T")

TIMEOUT_S = 60.0  # of a network file system that hangs
UNFINISHED = ".part"
# So much older than what has just been written: its process has died. A writer that was only slow finds it gone, fails,
# and puts it again.
ABANDONED_AFTER_S = 600.0
NEIGHBOURS = 8  # folders beside a new one that are looked at: those of the last days


class FolderObjects:
    """Implements Objects. Two processes may share the folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, name: str, content: bytes) -> None:
        await _beside(lambda: self._put(self._root / name, content))

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        return await _beside(lambda: _get(self._root / name, start, size))

    async def contents(self, folder: str, after: str = "", limit: int | None = None) -> list[Found]:
        def read() -> list[Found]:
            found = [
                Found(f"{folder}/{entry.name}", entry.stat().st_size)
                for entry in _entries(self._root / folder)
                if entry.is_file() and entry.name > after and not entry.name.endswith(UNFINISHED)
            ]
            return sorted(found)[:limit]

        return await _beside(read)

    async def folders(self, folder: str) -> list[str]:
        return await _beside(
            lambda: sorted(
                [entry.name for entry in _entries(self._root / folder) if entry.is_dir()]
            )
        )

    async def delete(self, names: list[str]) -> None:
        def remove() -> None:
            for name in names:
                (self._root / name).unlink(missing_ok=True)

        await _beside(remove)

    def _put(self, path: Path, content: bytes) -> None:
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        # One that took too long may still write when the same is put again.
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}{UNFINISHED}")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            written_s = os.fstat(file.fileno()).st_mtime
        unfinished.replace(path)
        for folder in {path.parent, *[folder.parent for folder in made]}:
            _sync(folder)
        looked_at = [path.parent]
        if path.parent in made:
            looked_at = sorted(path.parent.parent.iterdir())[-NEIGHBOURS:]
        for folder in looked_at:
            _remove_abandoned(folder, written_s - ABANDONED_AFTER_S)


def _remove_abandoned(folder: Path, before_s: float) -> None:
    """What a crash has left. By the file system's own clock."""
    with suppress(OSError):  # another process may remove it too, and none of it is in the way
        for entry in _entries(folder):
            if entry.name.endswith(UNFINISHED) and entry.stat().st_mtime < before_s:
                Path(entry.path).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """What was made or moved in it stays so."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _get(path: Path, start: int, size: int | None) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read() if size is None else file.read(size)
    except FileNotFoundError:
        raise Missing(path.name) from None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


async def _beside(work: Callable[[], T]) -> T:
    """In a thread. Raises ArchiveUnavailable."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.to_thread(work)
    except OSError as error:  # TimeoutError is one
        raise ArchiveUnavailable(f"the archive's folder: {error!r}") from error

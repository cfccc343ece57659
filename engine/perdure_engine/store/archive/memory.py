"""Objects in memory: for tests in virtual time, where nothing may wait for a disk."""

from __future__ import annotations

from perdure_engine.store.archive.objects import Found, Missing


class MemoryObjects:
    """Implements Objects."""

    def __init__(self) -> None:
        self.by_name: dict[str, bytes] = {}

    async def put(self, name: str, content: bytes) -> None:
        self.by_name[name] = content

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        content = self.by_name.get(name)
        if content is None:
            raise Missing(name)
        return content[start:] if size is None else content[start : start + size]

    async def contents(self, folder: str, after: str = "", limit: int | None = None) -> list[Found]:
        found = [
            Found(name, len(self.by_name[name]))
            for name in sorted(self.by_name)
            if name.rpartition("/")[0] == folder and name.rpartition("/")[2] > after
        ]
        return found[:limit]

    async def folders(self, folder: str) -> list[str]:
        below = f"{folder}/"
        rests = [name.removeprefix(below) for name in self.by_name if name.startswith(below)]
        return sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    async def delete(self, names: list[str]) -> None:
        for name in names:
            self.by_name.pop(name, None)

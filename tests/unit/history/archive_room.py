"""An archive in memory beside the room of history, whose requests a test can hold or fail."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.world import VirtualClock
from tests.unit.history.room import NAMESPACE, Hold, Node, Room

from perdure_engine.history.retention import Retention
from perdure_engine.ports.archive import ArchivedRun, ArchivePlace, ArchiveUnavailable
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import NamespaceRow, VisibilityFilter
from perdure_engine.store.archive.archive import ObjectArchive
from perdure_engine.store.archive.memory import MemoryObjects
from perdure_engine.transport.json.form import ContractForm

KEPT_S = 800  # retention of the room's namespace; an eighth of it is 100 s


class Bucket(MemoryObjects):
    """`puts` are the names in the order in which they were put."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []
        self.fails: list[bool] = []  # of the next puts: whether they fail
        self.lands = False  # whether one that fails has landed all the same
        self.hold: Hold | None = None

    async def put(self, name: str, content: bytes) -> None:
        if self.hold is not None:
            await self.hold.stop_here()
        fails = self.fails.pop(0) if self.fails else False
        if not fails or self.lands:
            self.puts.append(name)
            await super().put(name, content)
        if fails:
            raise ArchiveUnavailable("out of order")

    def objects(self, kind: str = "workflows") -> list[str]:
        """Of runs, without what lists and finds them."""
        return [
            name
            for name in sorted(self.by_name)
            if f"/{kind}/" in name and "/index/" not in name and "/ids/" not in name
        ]


def keep_for(room: Room, seconds: int, *, archive: bool = True) -> None:
    row = NamespaceRow(NAMESPACE, "room", "", seconds * 1_000, 1, archive)
    room.tables.namespaces[NAMESPACE] = row


def archive_in(room: Room, bucket: MemoryObjects) -> ObjectArchive:
    return ObjectArchive(bucket, VirtualClock(room.loop), ContractForm())


def retention(node: Node, bucket: MemoryObjects) -> Retention:
    archive = archive_in(node.room, bucket)
    return Retention(node.rooms, node.store, node.history.shards, archive=archive)


async def found(
    room: Room, bucket: MemoryObjects, workflow_id: str, run_id: bytes = b"", shard_id: int = 1
) -> ArchivedRun | None:
    return await archive_in(room, bucket).find_run(NAMESPACE, shard_id, workflow_id, run_id)


async def listed(room: Room, bucket: MemoryObjects, limit: int = 3) -> list[VisibilityRow]:
    """All pages."""
    archive, rows = archive_in(room, bucket), list[VisibilityRow]()
    place: ArchivePlace | None = None
    while True:
        page = await archive.list_runs(VisibilityFilter(NAMESPACE), place, limit)
        rows += [row for row, _ in page.rows]
        place = page.end
        if place is None:
            return rows


def ids(rows: Sequence[VisibilityRow]) -> list[bytes]:
    return sorted([row.run_id for row in rows])

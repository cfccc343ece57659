"""What lies where.

    <namespace id>/workflows/2026-11-29/00012-5f2c9a….jsonl.zst          runs, a line each
    <namespace id>/workflows/index/2026-11-29/00012-5f2c9a….jsonl.zst    what lists show of the same, a line each
    <namespace id>/workflows/ids/00012/3be1….ids                         where each id of the shard is (`id_index`)

and the same below `jobs`. The day is that of the close, in UTC; 00012 the shard. The rest of an object's name is a
digest of which runs are in it, all of them: the same runs put again replace the object, and others never do. First
and last id would not do: what is left of a portion that was removed in part has the same two, and would replace the
object that has them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import date, timedelta

from perdure_engine.core.ids import uuid_text
from perdure_engine.ports.archive import Kind, Shelf

DIGEST_BYTES = 8
SUFFIX = ".jsonl.zst"
IDS_SUFFIX = ".ids"

_EPOCH = date(1970, 1, 1)


def digest_of(keys: Iterable[tuple[bytes, int]]) -> bytes:
    """Of the runs of an object, as id and close."""
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for id_, close_us in sorted(keys):
        hashed.update(id_ + close_us.to_bytes(8, "big"))
    return hashed.digest()


def object_name(shard_id: int, digest: bytes) -> str:
    """Within its folder; its list has the same in another."""
    return f"{shard_id:05}-{digest.hex()}{SUFFIX}"


def shelf_prefix(shelf: Shelf) -> str:
    """What the names of all objects of the shelf begin with, and no other's of the folder do."""
    return f"{shelf.shard_id:05}-"


def data_folder(namespace_id: bytes, kind: Kind, day: int) -> str:
    return f"{_kind_folder(namespace_id, kind)}/{_day_text(day)}"


def days_folder(namespace_id: bytes, kind: Kind) -> str:
    return f"{_kind_folder(namespace_id, kind)}/index"


def index_folder(namespace_id: bytes, kind: Kind, day: int) -> str:
    return f"{days_folder(namespace_id, kind)}/{_day_text(day)}"


def ids_folder(namespace_id: bytes, kind: Kind, shard_id: int) -> str:
    return f"{_kind_folder(namespace_id, kind)}/ids/{shard_id:05}"


def shard_of_name(name: str) -> int:
    return int(name.partition("-")[0])


def day_of_folder(name: str) -> int | None:
    """None: it is not ours."""
    try:
        return (date.fromisoformat(name) - _EPOCH).days
    except ValueError:
        return None


def _kind_folder(namespace_id: bytes, kind: Kind) -> str:
    return f"{uuid_text(namespace_id)}/{kind.value}"


def _day_text(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()

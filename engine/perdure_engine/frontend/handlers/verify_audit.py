"""VerifyAudit: walks every chain of the audit log, a stretch with each call.

A broken link ends the walk of its chain: what comes behind proves nothing. Heads that somebody kept are
compared on the way; one past the end of its chain says that a tail was cut off.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import (
    BEFORE_FIRST,
    Action,
    Broken,
    Head,
    begins_at,
    check,
    entry_of,
)
from perdure_engine.core.errors import invalid
from perdure_engine.core.limits import AUDIT_KEPT_US
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.list_audit import chains
from perdure_engine.ports.audit import AuditFilter

ROWS_PER_READ = 1_000
ROWS_PER_CALL = 20_000  # hashed within half a second; the client asks again
HASH_BYTES = 32
SCOPE = b"verify_audit"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """How far the walk has come: in a chain (`seq` and `hash` of the last row), or before one (-1)."""

    chain: int
    seq: int = -1
    hash: bytes = b""
    time_us: int = 0


class Verified(msgspec.Struct):
    """`heads`: where the chains end that were walked to their end in this call."""

    rows: int
    heads: list[Head]
    broken: list[Broken]
    next_page_token: bytes = b""


async def verify_audit(frontend: Frontend, expected: list[Head], page_token: bytes) -> Verified:
    kept = _by_chain(frontend, expected)
    place = Place(0)
    if page_token:
        place = frontend.sealer.open_page("page_token", page_token, SCOPE, Place)
    found = Verified(0, [], [])
    last_chain = chains(frontend)[-1]
    while place.chain <= last_chain:
        if found.rows >= ROWS_PER_CALL:
            found.next_page_token = frontend.sealer.seal_page(place, SCOPE)
            break
        try:
            place = await _go_on(frontend, place, kept.get(place.chain, {}), found)
        except Broken as broken:
            found.broken.append(broken)
            place = Place(place.chain + 1)
    return found


def _by_chain(frontend: Frontend, expected: list[Head]) -> dict[int, dict[int, bytes]]:
    kept: dict[int, dict[int, bytes]] = {}
    for index, head in enumerate(expected):
        if not 0 <= head.chain <= frontend.history.number_of_shards:
            raise invalid(f"expected[{index}].chain", "is no chain of this installation")
        if head.seq < 1 or len(head.hash) != HASH_BYTES:
            raise invalid(f"expected[{index}]", "is not a head")
        kept.setdefault(head.chain, {})[head.seq] = head.hash
    return kept


async def _go_on(
    frontend: Frontend, place: Place, kept: dict[int, bytes], found: Verified
) -> Place:
    """One stretch of a chain. Raises Broken."""
    if place.seq < 0:
        head = await _begin(frontend, place.chain)
        _compare(head, kept)
    else:
        head = Head(place.chain, place.seq, place.hash, place.time_us)
    rows = await frontend.audit.load_audit(head.chain, head.seq, ROWS_PER_READ)
    for row in rows:
        head = check(head, row)
        _compare(head, kept)
    found.rows += len(rows)
    if len(rows) == ROWS_PER_READ:
        return Place(head.chain, head.seq, head.hash, head.time_us)
    beyond = [seq for seq in kept if seq > head.seq]
    if beyond:
        why = f"the chain ends before row {max(beyond)}, whose hash was kept: its end was cut off"
        raise Broken(head.chain, head.seq + 1, why)
    if head.seq:
        found.heads.append(head)
    return Place(head.chain + 1)


def _compare(head: Head, kept: dict[int, bytes]) -> None:
    if kept.get(head.seq, head.hash) != head.hash:
        raise Broken(head.chain, head.seq, "its hash is not the one that was kept")


async def _begin(frontend: Frontend, chain: int) -> Head:
    """Before the first row that is there. Raises Broken for a beginning that no sweep has written down."""
    begins = {head.chain: head for head in await frontend.audit.load_audit_begins()}
    begin = begins.get(chain)
    if begin is None:
        return Head(chain, 0, BEFORE_FIRST)
    where = AuditFilter(action=Action.EXPIRE_AUDIT)
    before = None
    while rows := await frontend.audit.list_audit(where, before, ROWS_PER_READ):
        for row in rows:
            entry = entry_of(row)
            if entry.subject == str(chain) and entry.after == begins_at(begin):
                return begin
        before = (rows[-1].time_us, rows[-1].shard_id, rows[-1].seq)
    # the entry that said so may be over its time itself
    own = begins.get(0)
    if own is not None and own.time_us >= begin.time_us + AUDIT_KEPT_US:
        return begin
    raise Broken(chain, begin.seq + 1, "the rows before it are gone, and no sweep says so")

"""ListBatchOperations: newest first."""

from __future__ import annotations

import msgspec

from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.describe_batch import BatchDescription, describe

PAGE_SIZE_DEFAULT = 20  # the parts of each are read


class Last(msgspec.Struct, frozen=True, array_like=True):
    started_us: int
    job_id: str


async def list_batches(
    frontend: Frontend, namespace_id: bytes, page_size: int, page_token: bytes
) -> tuple[list[BatchDescription], bytes]:
    size = checks.page_size("page_size", page_size, PAGE_SIZE_DEFAULT)
    scope = b"list_batches" + namespace_id
    before = None
    if page_token:
        last = frontend.sealer.open_page("page_token", page_token, scope, Last)
        before = (last.started_us, last.job_id)
    rows = await frontend.batches.list_batches(namespace_id, before, size + 1)
    found = [await describe(frontend, row) for row in rows[:size]]
    if len(rows) <= size:
        return found, b""
    end = rows[size - 1]
    return found, frontend.sealer.seal_page(Last(end.started_us, end.job_id), scope)

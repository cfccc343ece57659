"""Objects in a bucket of S3, by obstore (the extra `s3`). Where it is reached and with which credentials says the
environment: AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL and what else obstore reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

import obstore
from obstore.store import S3Store

from perdure_engine.ports.archive import ArchiveUnavailable
from perdure_engine.store.archive.objects import Found, Missing

T = TypeVar("T")

TIMEOUT_S = 30.0  # of a request with its tries
TRIES_MAX = 3
LISTED_AT_ONCE = 1_000  # as S3 does it


class BucketObjects:
    """Implements Objects. `url`: s3://bucket or s3://bucket/prefix."""

    def __init__(self, url: str) -> None:
        self._store = S3Store.from_url(
            url,
            retry_config={
                "max_retries": TRIES_MAX - 1,
                "retry_timeout": timedelta(seconds=TIMEOUT_S),
            },
        )

    async def put(self, name: str, content: bytes) -> None:
        await _in_time(obstore.put_async(self._store, name, content))

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        return await _in_time(self._get(name, start, size))

    async def _get(self, name: str, start: int, size: int | None) -> bytes:
        try:
            if size is not None:
                asked = obstore.get_range_async(self._store, name, start=start, length=size)
                return bytes(await asked)
            whole = await obstore.get_async(self._store, name)
            return bytes(await whole.bytes_async())[start:]
        except FileNotFoundError as error:
            raise Missing(_said(error)) from None

    async def contents(self, folder: str, after: str = "", limit: int | None = None) -> list[Found]:
        return (await _in_time(self._listed(folder, after, limit)))[:limit]

    async def _listed(self, folder: str, after: str, limit: int | None) -> list[Found]:
        found: list[Found] = []
        offset = f"{folder}/{after}" if after else None
        chunks = obstore.list(
            self._store,
            folder,
            offset=offset,
            chunk_size=min(limit or LISTED_AT_ONCE, LISTED_AT_ONCE),
        )
        async for chunk in chunks:
            found += [Found(one["path"], one["size"]) for one in chunk]
            if limit is not None and len(found) >= limit:
                break
        return found

    async def folders(self, folder: str) -> list[str]:
        listed = await _in_time(obstore.list_with_delimiter_async(self._store, folder))
        return sorted([path.rpartition("/")[2] for path in listed["common_prefixes"]])

    async def delete(self, names: list[str]) -> None:
        if names:
            await _in_time(obstore.delete_async(self._store, names))


async def _in_time(asked: Awaitable[T]) -> T:
    """Raises ArchiveUnavailable, and Missing if that is what was raised."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asked
    except Missing:
        raise
    except Exception as error:  # obstore raises whatever its stores raise
        raise ArchiveUnavailable(f"the archive's bucket: {_said(error)}") from None


def _said(error: Exception) -> str:
    """The first line: below it obstore prints its own insides."""
    return (str(error).splitlines() or [""])[0] or type(error).__name__

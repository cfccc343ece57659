"""Large payloads beside the engine: in a folder, in S3, in whatever obstore can open.

    from obstore.store import S3Store
    storage = ExternalStorage(S3Store("my-bucket"), prefix="perdure")
    client = await Client.connect(data_converter=DataConverter(external_storage=storage))

A payload over the threshold is written first, under a name made of its hash, and the call then
carries a reference with that hash. Codecs have done their work before: what lies there is as
encrypted as what travels. Nothing is deleted here, because nobody knows who still needs it: give the
bucket a lifecycle rule that is longer than the longest run and its retention together.

The extra `perdure[s3]` brings obstore.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import re
from typing import Any

import msgspec

from perdure._payload import Payload
from perdure._wire.payloads import payload_from_bytes, payload_to_bytes
from perdure.errors import ExternalPayloadError, PayloadAlteredError, PayloadEncodeError

__all__ = ["THRESHOLD_BYTES", "ExternalStorage"]

THRESHOLD_BYTES = 256 * 1024
EXTERNAL = "binary/external"
_TIMEOUT_S = 60.0
_ON_THE_LOOP_BYTES_MAX = 1024 * 1024  # a millisecond's work

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What travels, as JSON, for a payload that lies elsewhere."""

    name: str
    sha256: str
    size_bytes: int


class ExternalStorage:
    """`store` is an obstore store. Objects are named `prefix/sha256/ab/abcd…`.

    Every client and worker of a namespace needs the same store; a smaller or larger `threshold` (in
    bytes) may be changed at any time. What is larger than `size_max` is refused, both ways.
    """

    def __init__(
        self,
        store: Any,
        *,
        prefix: str = "",
        threshold: int = THRESHOLD_BYTES,
        size_max: int = 256 * 1024 * 1024,
    ) -> None:
        try:
            self._obstore = importlib.import_module("obstore")
        except ImportError as error:
            raise ImportError(f"ExternalStorage needs perdure[s3]: {error}") from None
        if threshold < 0 or size_max < threshold:
            raise ValueError("threshold must lie between 0 and size_max")
        self._store = store
        self._prefix = prefix.strip("/")
        self._threshold = threshold
        self._size_max = size_max

    async def store(self, payload: Payload) -> Payload:
        """Raises PayloadEncodeError when it could not be written; nothing then refers to it."""
        if len(payload.data) <= self._threshold or payload.encoding == EXTERNAL:
            return payload
        whole = payload_to_bytes(payload)
        if len(whole) > self._size_max:
            raise PayloadEncodeError(f"{len(whole)} bytes are over the limit of {self._size_max}")
        digest = await _sha256(whole)
        parts = (self._prefix, "sha256", digest[:2], digest)
        name = "/".join(part for part in parts if part)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                # Written again when it is there already: the same bytes under the same name.
                await self._obstore.put_async(self._store, name, whole)
        except Exception as error:  # obstore raises whatever its stores raise
            raise PayloadEncodeError(
                f"external storage did not take {name}: {_said(error)}"
            ) from None
        reference = Reference(name=name, sha256=digest, size_bytes=len(whole))
        return Payload(EXTERNAL, msgspec.json.encode(reference))

    async def retrieve(self, payload: Payload) -> Payload:
        """Raises ExternalPayloadError, or PayloadAlteredError for other bytes than were written."""
        if payload.encoding != EXTERNAL:
            return payload
        reference = _read_reference(payload)
        if reference.size_bytes > self._size_max:
            raise ExternalPayloadError(
                f"{reference.size_bytes} bytes are over the limit of {self._size_max}"
            )
        whole = await self._fetch(reference)
        if await _sha256(whole) != reference.sha256:
            raise PayloadAlteredError(f"external object {reference.name} is not what was written")
        found = payload_from_bytes(whole)
        return Payload("", b"") if found is None else found

    async def _fetch(self, reference: Reference) -> bytes:
        name = reference.name
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                found = await self._obstore.get_async(self._store, name)
                size = found.meta["size"]
                if size == reference.size_bytes:
                    return bytes(await found.bytes_async())
        except FileNotFoundError:
            raise ExternalPayloadError(f"external object {name} is missing") from None
        except Exception as error:  # obstore raises whatever its stores raise
            raise ExternalPayloadError(f"external object {name}: {_said(error)}") from None
        raise PayloadAlteredError(
            f"external object {name} has {size} bytes, {reference.size_bytes} were written"
        )


def _read_reference(payload: Payload) -> Reference:
    try:
        reference = msgspec.json.decode(payload.data, type=Reference)
    except msgspec.DecodeError as error:
        raise ExternalPayloadError(f"not a reference: {error}") from None
    digest = reference.sha256
    # Only objects of our making are ever asked for, wherever the reference comes from.
    if not _SHA256.fullmatch(digest) or not f"/{reference.name}".endswith(
        f"/sha256/{digest[:2]}/{digest}"
    ):
        raise ExternalPayloadError("not a reference: its name is not that of its hash")
    return reference


async def _sha256(data: bytes) -> str:
    if len(data) <= _ON_THE_LOOP_BYTES_MAX:
        return hashlib.sha256(data).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()


def _said(error: Exception) -> str:
    """The first line: below it obstore prints its own insides."""
    return (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__

"""What happens to payloads between the converter and the wire: compression and encryption.

    keys = KeyRing("2026-11", {"2026-11": new_key, "2026-05": old_key})
    codec = CodecChain(CompressionCodec(), EncryptionCodec(keys))
    client = await Client.connect(data_converter=DataConverter(payload_codec=codec))

Compress before encrypting, as above: encrypted bytes do not get smaller. Each codec wraps the whole
payload, encoding and metadata included, and hands on untouched what it has not made, so that one can
be added to a system that runs. The extra `perdure[crypto]` brings what they need.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure._payload import Payload
from perdure._wire.payloads import payload_from_bytes, payload_to_bytes
from perdure.converter import PayloadCodec
from perdure.errors import (
    DecompressionError,
    PayloadAlteredError,
    PayloadDecodeError,
    UnknownKeyError,
)

__all__ = ["CodecChain", "CompressionCodec", "EncryptionCodec", "KeyRing", "PayloadCodec"]

ENCRYPTED = "binary/encrypted"
COMPRESSED = "binary/zstd"
KEY_ID = "encryption-key-id"
CIPHER = "encryption-cipher"

_AES_256_GCM = b"AES-256-GCM"
_KEY_BYTES = 32
_KEY_ID_BYTES_MAX = 200
_NONCE_BYTES = 12
_TAG_BYTES = 16
# Every payload with that much room may be a legitimate one, however well it was compressed.
_ALWAYS_ALLOWED_BYTES = 1024 * 1024
_RATIO_MAX = 100
# A millisecond's work.
_ON_THE_LOOP_BYTES_MAX = 512 * 1024


class CodecChain(PayloadCodec):
    """Encodes by one codec after the other, in the order given, and decodes in reverse."""

    def __init__(self, *codecs: PayloadCodec) -> None:
        self._codecs = codecs

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        found = list(payloads)
        for codec in self._codecs:
            found = await codec.encode(found)
        return found

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        found = list(payloads)
        for codec in reversed(self._codecs):
            found = await codec.decode(found)
        return found


class CompressionCodec(PayloadCodec):
    """zstd, for payloads that get smaller by it.

    What is read may grow to `output_bytes_max` at most, and beyond 1 MiB only to a hundred times its
    size: a few bytes of somebody else's must not fill our memory. What would grow more is not
    compressed in the first place.
    """

    def __init__(
        self, *, level: int = 3, size_min: int = 256, output_bytes_max: int = 64 * 1024 * 1024
    ) -> None:
        """Payloads under `size_min` bytes are left alone."""
        self._zstd = _load("zstandard", "CompressionCodec")
        self._level = level
        self._size_min = size_min
        self._output_bytes_max = output_bytes_max

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _each(self._encode, payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _each(self._decode, payloads)

    def _encode(self, payload: Payload) -> Payload:
        if len(payload.data) < self._size_min:
            return payload
        whole = payload_to_bytes(payload)
        # A compressor for each: they are not safe to share between threads.
        data: bytes = self._zstd.ZstdCompressor(level=self._level).compress(whole)
        if len(data) >= len(payload.data) or len(whole) > self._allowed(len(data)):
            return payload
        return Payload(COMPRESSED, data)

    def _decode(self, payload: Payload) -> Payload:
        if payload.encoding != COMPRESSED:
            return payload
        zstd = self._zstd
        try:
            size: int = zstd.get_frame_parameters(payload.data).content_size
        except zstd.ZstdError as error:
            raise DecompressionError(f"not zstd: {error}") from None
        # A frame that does not say its size says this, which is too large as well.
        if size > self._allowed(len(payload.data)):
            raise DecompressionError(
                f"{len(payload.data)} bytes would become {size}, more than is allowed"
            )
        try:
            whole: bytes = zstd.ZstdDecompressor().decompress(payload.data, max_output_size=size)
        except zstd.ZstdError as error:
            raise DecompressionError(f"zstd data is damaged: {error}") from None
        return _inner(whole)

    def _allowed(self, size: int) -> int:
        return min(max(_ALWAYS_ALLOWED_BYTES, _RATIO_MAX * size), self._output_bytes_max)


@dataclass(frozen=True)
class KeyRing:
    """Keys of 32 bytes by their ids: `current` encrypts, all of them decrypt.

    To rotate, give every process the new key as an old one first (`with_key`), then make it current
    (`rotated_to`). Drop a key when no run that has used it is needed any more: retention and all.
    """

    current: str
    keys: Mapping[str, bytes] = field(repr=False)  # never in a log

    def __post_init__(self) -> None:
        if self.current not in self.keys:
            raise ValueError(f"current key {self.current!r} is not among the keys")
        for key_id, key in self.keys.items():
            if not key_id or len(key_id.encode()) > _KEY_ID_BYTES_MAX:
                raise ValueError(f"key id {key_id!r}: 1 to {_KEY_ID_BYTES_MAX} bytes are allowed")
            if len(key) != _KEY_BYTES:
                raise ValueError(f"key {key_id!r} has {len(key)} bytes, AES-256 needs {_KEY_BYTES}")

    def with_key(self, key_id: str, key: bytes) -> KeyRing:
        """With one more key that decrypts. Raises ValueError for another key of a known id."""
        if self.keys.get(key_id, key) != key:
            raise ValueError(f"key id {key_id!r} is taken")
        return KeyRing(self.current, {**self.keys, key_id: key})

    def rotated_to(self, key_id: str) -> KeyRing:
        return KeyRing(key_id, self.keys)


class EncryptionCodec(PayloadCodec):
    """AES-256-GCM with a random nonce for each payload and the key's id beside it.

    Encoding and metadata are bound to the ciphertext: who changes the key id, the cipher or a byte of
    the data gets PayloadAlteredError, not another value. Payloads that are not encrypted pass, so
    that encryption can be switched on while runs are open; `accept_plaintext=False` ends that.

    By the birthday bound a key serves for some four billion payloads: rotate before.
    """

    def __init__(self, keys: KeyRing, *, accept_plaintext: bool = True) -> None:
        aead = _load("cryptography.hazmat.primitives.ciphers.aead", "EncryptionCodec")
        self._ciphers: dict[str, Any] = {
            key_id: aead.AESGCM(key) for key_id, key in keys.keys.items()
        }
        self._invalid_tag: type[Exception] = importlib.import_module(
            "cryptography.exceptions"
        ).InvalidTag
        self._current = keys.current
        self._accept_plaintext = accept_plaintext

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _each(self._encode, payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _each(self._decode, payloads)

    def _encode(self, payload: Payload) -> Payload:
        metadata = {CIPHER: _AES_256_GCM, KEY_ID: self._current.encode()}
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._ciphers[self._current].encrypt(
            nonce, payload_to_bytes(payload), _associated(metadata)
        )
        return Payload(ENCRYPTED, nonce + sealed, metadata)

    def _decode(self, payload: Payload) -> Payload:
        if payload.encoding != ENCRYPTED:
            if self._accept_plaintext:
                return payload
            raise PayloadAlteredError(f"a {payload.encoding} payload is not encrypted")
        metadata = payload.metadata
        if metadata.get(CIPHER) != _AES_256_GCM:
            raise PayloadDecodeError("encrypted by a cipher that is not known here")
        key_id = metadata.get(KEY_ID, b"").decode(errors="replace")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise UnknownKeyError(key_id)
        data = payload.data
        if len(data) < _NONCE_BYTES + _TAG_BYTES:
            raise PayloadAlteredError("encrypted data is cut off")
        try:
            whole: bytes = cipher.decrypt(
                data[:_NONCE_BYTES], data[_NONCE_BYTES:], _associated(metadata)
            )
        except self._invalid_tag:
            raise PayloadAlteredError(
                f"data or metadata was altered, or key {key_id!r} is not the one that encrypted it"
            ) from None
        return _inner(whole)


def _associated(metadata: Mapping[str, bytes]) -> bytes:
    """Encoding and metadata, so that no two different ones give the same bytes."""
    parts = [ENCRYPTED.encode()]
    for name in sorted(metadata):
        parts += [name.encode(), metadata[name]]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _inner(whole: bytes) -> Payload:
    payload = payload_from_bytes(whole)
    return Payload("", b"") if payload is None else payload


def _load(module: str, needed_by: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{needed_by} needs perdure[crypto]: {error}") from None


async def _each(change: Callable[[Payload], Payload], payloads: Sequence[Payload]) -> list[Payload]:
    """In a thread when it takes longer than other things on the event loop should wait."""
    if sum(len(one.data) for one in payloads) <= _ON_THE_LOOP_BYTES_MAX:
        return [change(one) for one in payloads]
    return await asyncio.to_thread(lambda: [change(one) for one in payloads])

"""Compression and encryption: there and back, by old keys too, and nothing altered gets through."""

import asyncio
import os
from collections.abc import Sequence

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from perdure._wire.payloads import payload_to_bytes
from perdure.codecs import (
    CIPHER,
    KEY_ID,
    CodecChain,
    CompressionCodec,
    EncryptionCodec,
    KeyRing,
    PayloadCodec,
)
from perdure.converter import DataConverter, Payload
from perdure.errors import (
    DecompressionError,
    PayloadAlteredError,
    PayloadDecodeError,
    UnknownKeyError,
)

OLD, NEW = b"o" * 32, b"n" * 32
KEYS = KeyRing("old", {"old": OLD})
PLAIN = Payload("json/plain", b'{"card":"4111"}', {"hint": b"order"})
LARGE = Payload("json/plain", b'"' + b"perdure " * 1000 + b'"')


def encode(codec: PayloadCodec, *payloads: Payload) -> list[Payload]:
    return asyncio.run(codec.encode(payloads))


def decode(codec: PayloadCodec, *payloads: Payload) -> list[Payload]:
    return asyncio.run(codec.decode(payloads))


payloads = st.builds(
    Payload,
    st.sampled_from(["json/plain", "binary/null", "binary/plain", "json/protobuf"]),
    st.binary(max_size=2000),
    st.dictionaries(st.text(max_size=5), st.binary(max_size=10), max_size=2),
)


@given(st.lists(payloads, max_size=3))
def test_what_goes_in_comes_out(given: list[Payload]) -> None:
    codec = CodecChain(CompressionCodec(size_min=0), EncryptionCodec(KEYS))

    encoded = encode(codec, *given)

    assert all(one.encoding == "binary/encrypted" for one in encoded)
    assert decode(codec, *encoded) == given


def test_nothing_of_a_value_is_left_and_no_two_are_alike() -> None:
    codec = EncryptionCodec(KEYS)
    first, second = encode(codec, PLAIN, PLAIN)

    for one in (first, second):
        whole = payload_to_bytes(one)
        assert all(part not in whole for part in (b"4111", b"card", b"json/plain", b"order"))
    assert first.data != second.data
    assert first.metadata == {CIPHER: b"AES-256-GCM", KEY_ID: b"old"}


def test_a_large_payload_is_encoded_in_a_thread_all_the_same() -> None:
    codec = CodecChain(CompressionCodec(), EncryptionCodec(KEYS))
    payload = Payload("binary/plain", os.urandom(1024 * 1024))

    assert decode(codec, *encode(codec, payload)) == [payload]


# --- keys -----------------------------------------------------------------------------------------


def test_rotation_step_by_step() -> None:
    """Written by the old key, read by everyone at every step; written by the new one at last."""
    written = encode(EncryptionCodec(KEYS), PLAIN)
    both = KEYS.with_key("new", NEW)
    rotated = both.rotated_to("new")

    assert decode(EncryptionCodec(both), *written) == [PLAIN]
    (by_new,) = encode(EncryptionCodec(rotated), PLAIN)
    assert by_new.metadata[KEY_ID] == b"new"
    assert decode(EncryptionCodec(rotated), *written, by_new) == [PLAIN, PLAIN]
    assert decode(EncryptionCodec(both), by_new) == [PLAIN]  # who has not rotated yet reads it too
    with pytest.raises(UnknownKeyError, match="key 'new' is not in the key ring") as caught:
        decode(EncryptionCodec(KEYS), by_new)
    assert caught.value.key_id == "new"


def test_keys_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="current key 'b' is not among the keys"):
        KeyRing("b", {"a": OLD})
    with pytest.raises(ValueError, match="key 'a' has 16 bytes, AES-256 needs 32"):
        KeyRing("a", {"a": b"x" * 16})
    with pytest.raises(ValueError, match="1 to 200 bytes"):
        KeyRing("", {"": OLD})
    with pytest.raises(ValueError, match="key id 'old' is taken"):
        KEYS.with_key("old", NEW)
    assert KEYS.with_key("old", OLD) == KEYS


def test_a_key_ring_does_not_show_its_keys() -> None:
    assert repr(KEYS) == "KeyRing(current='old')"


# --- what was altered -----------------------------------------------------------------------------


def test_every_byte_is_guarded() -> None:
    """reliability: an altered payload is an error with a name, never another value."""
    codec = EncryptionCodec(KEYS)
    (sealed,) = encode(codec, PLAIN)
    for index in range(len(sealed.data)):
        data = bytearray(sealed.data)
        data[index] ^= 1
        with pytest.raises(PayloadAlteredError, match="was altered, or key 'old' is not the one"):
            decode(codec, Payload(sealed.encoding, bytes(data), sealed.metadata))


@pytest.mark.parametrize(
    "metadata",
    [
        {CIPHER: b"AES-256-GCM", KEY_ID: b"new"},  # another key of the ring
        {CIPHER: b"AES-256-GCM", KEY_ID: b"old", "more": b""},
        {CIPHER: b"AES-256-GCM", KEY_ID: b"twin"},  # the same key by another id
    ],
)
def test_the_metadata_is_bound(metadata: dict[str, bytes]) -> None:
    """The associated data: without it the last two of these would be decoded."""
    codec = EncryptionCodec(KeyRing("old", {"old": OLD, "new": NEW, "twin": OLD}))
    (sealed,) = encode(codec, PLAIN)

    with pytest.raises(PayloadAlteredError):
        decode(codec, Payload(sealed.encoding, sealed.data, metadata))


def test_the_wrong_key_of_the_right_id() -> None:
    (sealed,) = encode(EncryptionCodec(KEYS), PLAIN)

    with pytest.raises(PayloadAlteredError):
        decode(EncryptionCodec(KeyRing("old", {"old": NEW})), sealed)


@pytest.mark.parametrize("data", [b"", b"x" * 27])
def test_cut_off(data: bytes) -> None:
    sealed = Payload("binary/encrypted", data, {CIPHER: b"AES-256-GCM", KEY_ID: b"old"})
    with pytest.raises(PayloadAlteredError, match="cut off"):
        decode(EncryptionCodec(KEYS), sealed)


def test_a_cipher_of_another_day() -> None:
    sealed = Payload("binary/encrypted", b"x" * 40, {CIPHER: b"ROT13", KEY_ID: b"old"})
    with pytest.raises(PayloadDecodeError, match="a cipher that is not known"):
        decode(EncryptionCodec(KEYS), sealed)


def test_plaintext_passes_until_it_is_forbidden() -> None:
    assert decode(EncryptionCodec(KEYS), PLAIN) == [PLAIN]
    with pytest.raises(PayloadAlteredError, match="a json/plain payload is not encrypted"):
        decode(EncryptionCodec(KEYS, accept_plaintext=False), PLAIN)


# --- compression ----------------------------------------------------------------------------------


def test_only_what_gets_smaller_is_compressed() -> None:
    codec = CompressionCodec()
    noise = Payload("binary/plain", os.urandom(1000))
    small = Payload("json/plain", b'"' + b"a" * 200 + b'"')

    compressed, *left = encode(codec, LARGE, noise, small)

    assert left == [noise, small]
    assert compressed.encoding == "binary/zstd"
    assert len(compressed.data) < 200
    assert decode(codec, compressed, noise, small) == [LARGE, noise, small]


def bomb(size: int) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(b"\0" * size)


def test_b11_a_bomb_is_refused_before_it_goes_off() -> None:
    codec = CompressionCodec()
    data = bomb(50 * 1024 * 1024)
    assert len(data) < 10_000

    with pytest.raises(DecompressionError, match="would become 52428800, more than is allowed"):
        decode(codec, Payload("binary/zstd", data))


def test_b11_a_bomb_that_does_not_say_its_size() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    data = compressor.compress(b"\0" * 5_000_000) + compressor.flush()

    with pytest.raises(DecompressionError, match="more than is allowed"):
        decode(CompressionCodec(), Payload("binary/zstd", data))


def test_what_would_look_like_a_bomb_is_not_compressed() -> None:
    codec = CompressionCodec()
    zeros = Payload("binary/plain", b"\0" * 3_000_000)

    assert encode(codec, zeros) == [zeros]


@pytest.mark.parametrize("data", [b"", b"not zstd", bomb(1000)[:-3], bomb(1000)[:8]])
def test_damaged_zstd(data: bytes) -> None:
    with pytest.raises(DecompressionError):
        decode(CompressionCodec(), Payload("binary/zstd", data))


def test_zstd_of_something_else() -> None:
    data = zstandard.ZstdCompressor().compress(b"\xff\xff\xff")
    with pytest.raises(PayloadDecodeError, match="not an encoded Payload message"):
        decode(CompressionCodec(), Payload("binary/zstd", data))


# --- together -------------------------------------------------------------------------------------


class Marking(PayloadCodec):
    """Shows in which order codecs work."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(f"{self._mark}({one.encoding})", one.data) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        mine = f"{self._mark}("
        assert all(one.encoding.startswith(mine) for one in payloads)
        return [Payload(one.encoding[len(mine) : -1], one.data) for one in payloads]


def test_a_chain_decodes_in_reverse() -> None:
    chain = CodecChain(Marking("a"), Marking("b"))
    plain = Payload("x", b"1")

    (encoded,) = encode(chain, plain)

    assert encoded.encoding == "b(a(x))"
    assert decode(chain, encoded) == [plain]


async def test_a_data_converter_goes_all_the_way() -> None:
    converter = DataConverter(payload_codec=EncryptionCodec(KEYS))

    travelling = await converter.encode(["secret", 7])

    assert [one.encoding for one in travelling] == ["binary/encrypted"] * 2
    assert await converter.decode(travelling, [str, int]) == ["secret", 7]
    with pytest.raises(PayloadDecodeError, match="this side has no EncryptionCodec"):
        await DataConverter.default.decode(travelling)

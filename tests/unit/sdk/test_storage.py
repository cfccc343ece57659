"""External storage in a folder: written first, named by content, checked when it is read."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from obstore.store import LocalStore, MemoryStore

from perdure.codecs import EncryptionCodec, KeyRing
from perdure.converter import DataConverter, Payload
from perdure.errors import ExternalPayloadError, PayloadAlteredError, PayloadEncodeError
from perdure.storage import THRESHOLD_BYTES, ExternalStorage

LARGE = Payload("json/plain", b'"' + b"x" * THRESHOLD_BYTES + b'"', {"hint": b"text"})


@pytest.fixture
def storage(tmp_path: Path) -> ExternalStorage:
    return ExternalStorage(LocalStore(tmp_path), prefix="payloads")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def reference(payload: Payload) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(payload.data)
    return found


def changed(payload: Payload, **values: object) -> Payload:
    data = msgspec.json.encode({**reference(payload), **values})
    return Payload(payload.encoding, data)


async def test_there_and_back(storage: ExternalStorage, tmp_path: Path) -> None:
    stored = await storage.store(LARGE)

    said = reference(stored)
    content = (tmp_path / said["name"]).read_bytes()
    assert stored.encoding == "binary/external"
    assert said["sha256"] == hashlib.sha256(content).hexdigest()
    assert said["size_bytes"] == len(content)
    assert said["name"] == f"payloads/sha256/{said['sha256'][:2]}/{said['sha256']}"
    assert await storage.retrieve(stored) == LARGE


async def test_the_same_content_has_one_object(storage: ExternalStorage, tmp_path: Path) -> None:
    """A call that is made again writes the same object: nothing to clean up, nothing half-written."""
    assert await storage.store(LARGE) == await storage.store(LARGE)
    assert len(files(tmp_path)) == 1


async def test_the_threshold(tmp_path: Path) -> None:
    storage = ExternalStorage(LocalStore(tmp_path), threshold=10)
    at, over = Payload("binary/plain", b"x" * 10), Payload("binary/plain", b"x" * 11)

    assert await storage.store(at) is at
    stored = await storage.store(over)
    assert stored.encoding == "binary/external"
    assert await storage.retrieve(at) is at
    # Whoever reads does not need the same threshold, nor the same prefix.
    other = ExternalStorage(LocalStore(tmp_path), prefix="other", threshold=1_000)
    assert await other.retrieve(stored) == over


async def test_a_missing_object(storage: ExternalStorage, tmp_path: Path) -> None:
    stored = await storage.store(LARGE)
    (tmp_path / reference(stored)["name"]).unlink()

    with pytest.raises(ExternalPayloadError, match=r"external object payloads/.* is missing"):
        await storage.retrieve(stored)


async def test_an_altered_object(storage: ExternalStorage, tmp_path: Path) -> None:
    stored = await storage.store(LARGE)
    path = tmp_path / reference(stored)["name"]
    content = path.read_bytes()

    path.write_bytes(content[:-1] + b"y")
    with pytest.raises(PayloadAlteredError, match="is not what was written"):
        await storage.retrieve(stored)
    path.write_bytes(content + b"y")
    with pytest.raises(PayloadAlteredError, match="were written"):
        await storage.retrieve(stored)


async def test_a_reference_to_anything_else_is_refused(
    storage: ExternalStorage, tmp_path: Path
) -> None:
    """Whoever can write a reference must not be able to read our bucket by it."""
    (tmp_path / "other").write_bytes(b"secret")
    stored = await storage.store(LARGE)
    other = hashlib.sha256(b"secret").hexdigest()
    for wrong in (
        changed(stored, name="other", sha256=other, size_bytes=6),
        changed(stored, name=f"../sha256/{other[:2]}/{other[:-1]}"),
        changed(stored, sha256="x"),
        Payload(stored.encoding, b"{}"),
        Payload(stored.encoding, b"\xff"),
    ):
        with pytest.raises(ExternalPayloadError, match="not a reference"):
            await storage.retrieve(wrong)
    digest = reference(stored)["sha256"]
    with pytest.raises(ExternalPayloadError, match="external object"):
        await storage.retrieve(changed(stored, name=f"../sha256/{digest[:2]}/{digest}"))


async def test_a_store_that_fails_is_named(tmp_path: Path) -> None:
    class Broken:
        """No obstore store at all: put and get raise TypeError."""

    storage = ExternalStorage(Broken())
    with pytest.raises(PayloadEncodeError, match="external storage did not take"):
        await storage.store(LARGE)
    stored = await ExternalStorage(MemoryStore()).store(LARGE)
    with pytest.raises(ExternalPayloadError, match="external object"):
        await storage.retrieve(stored)


async def test_the_size_limit_holds_both_ways() -> None:
    store = MemoryStore()
    stored = await ExternalStorage(store).store(LARGE)
    small = ExternalStorage(store, size_max=THRESHOLD_BYTES)

    with pytest.raises(PayloadEncodeError, match="over the limit of 262144"):
        await small.store(LARGE)
    with pytest.raises(ExternalPayloadError, match="over the limit of 262144"):
        await small.retrieve(stored)
    with pytest.raises(ValueError, match="threshold"):
        ExternalStorage(store, threshold=-1)


async def test_what_lies_there_is_encrypted(tmp_path: Path) -> None:
    converter = DataConverter(
        payload_codec=EncryptionCodec(KeyRing("k", {"k": b"k" * 32})),
        external_storage=ExternalStorage(LocalStore(tmp_path)),
    )
    secret = "secret " * THRESHOLD_BYTES

    (travelling,) = await converter.encode([secret])

    assert len(travelling.data) < 500
    assert travelling.encoding == "binary/external"
    (path,) = files(tmp_path)
    assert b"secret" not in path.read_bytes()
    assert await converter.decode([travelling], [str]) == [secret]

"""One suite for all that can hold the archive: a folder, a bucket (moto's S3 server on loopback), memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from perdure_engine.ports.archive import ArchiveUnavailable
from perdure_engine.store.archive.bucket import BucketObjects
from perdure_engine.store.archive.folder import ABANDONED_AFTER_S, FolderObjects
from perdure_engine.store.archive.memory import MemoryObjects
from perdure_engine.store.archive.objects import Found, Missing, Objects

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield boto3.resource(
        "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )  # fmt: skip
    server.stop()


@pytest.fixture
def bucket(s3: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty bucket. Credentials are the environment's, as in production."""
    name = f"archive-{next(_numbers)}"
    s3.create_bucket(Bucket=name)
    environment = {
        "AWS_ENDPOINT_URL": s3.meta.client.meta.endpoint_url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ALLOW_HTTP": "true",
    }
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    return f"s3://{name}/pre/fix"


@pytest.fixture(params=["memory", "folder", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "memory":
        return MemoryObjects()
    if request.param == "folder":
        return FolderObjects(tmp_path / "archive")
    return BucketObjects(request.getfixturevalue("bucket"))


async def test_what_is_put_is_there_whole_and_in_parts(objects: Objects) -> None:
    await objects.put("a/b/one", b"0123456789")

    assert await objects.get("a/b/one") == b"0123456789"
    assert await objects.get("a/b/one", 3) == b"3456789"
    assert await objects.get("a/b/one", 3, 4) == b"3456"
    assert await objects.get("a/b/one", 8, 100) == b"89"


async def test_the_same_name_again_replaces(objects: Objects) -> None:
    await objects.put("a/one", b"before")
    await objects.put("a/one", b"after")

    assert await objects.get("a/one") == b"after"
    assert await objects.contents("a") == [Found("a/one", 5)]


async def test_what_is_not_there(objects: Objects) -> None:
    for size in (None, 10):
        with pytest.raises(Missing):
            await objects.get("a/none", 0, size)
    assert await objects.contents("a") == []
    assert await objects.folders("a") == []
    await objects.delete(["a/none"])
    await objects.delete([])


async def test_a_folder_is_listed_in_order_past_a_name(objects: Objects) -> None:
    names = [f"x/days/{number:02}" for number in range(7)]
    for name in reversed(names):
        await objects.put(name, b"1" * int(name[-2:]))
    await objects.put("x/other/01", b"")
    await objects.put("x/daysand/01", b"")

    assert await objects.contents("x/days") == [Found(name, int(name[-2:])) for name in names]
    assert [found.name for found in await objects.contents("x/days", "04")] == names[5:]
    assert [found.name for found in await objects.contents("x/days", "04-")] == names[5:]
    assert [found.name for found in await objects.contents("x/days", "01", 3)] == names[2:5]
    assert await objects.contents("x/days", "06") == []


async def test_folders_are_listed_in_order(objects: Objects) -> None:
    for name in ("n/k/2026-11-30/1", "n/k/2026-11-29/1", "n/k/2026-11-29/2", "n/l/x", "n/k/file"):
        await objects.put(name, b"")

    assert await objects.folders("n/k") == ["2026-11-29", "2026-11-30"]
    assert await objects.folders("n") == ["k", "l"]


async def test_what_is_deleted_is_gone(objects: Objects) -> None:
    for name in ("a/1", "a/2", "a/3"):
        await objects.put(name, b"x")

    await objects.delete(["a/1", "a/3", "a/4"])

    assert [found.name for found in await objects.contents("a")] == ["a/2"]


async def test_a_bucket_that_is_not_there_is_unavailable(bucket: str) -> None:
    objects = BucketObjects("s3://nobodys-bucket")

    with pytest.raises(ArchiveUnavailable, match="bucket"):
        await objects.put("a", b"x")
    with pytest.raises(ArchiveUnavailable):
        await objects.contents("a")


async def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    objects = FolderObjects(tmp_path / "file")

    with pytest.raises(ArchiveUnavailable, match="folder"):
        await objects.put("a/b", b"x")


async def test_a_file_that_was_not_finished_is_not_shown(tmp_path: Path) -> None:
    """What a crash while it was written leaves."""
    objects = FolderObjects(tmp_path)
    await objects.put("a/one", b"x")
    (tmp_path / "a" / "two.123.part").write_bytes(b"half")

    assert await objects.contents("a") == [Found("a/one", 1)]


async def test_what_a_crash_left_in_the_folder_is_removed_later(tmp_path: Path) -> None:
    """In the folder that is written, and in those of the days before when a new one begins. Never what another process
    may still write, and nothing that is whole."""
    objects = FolderObjects(tmp_path)
    for day in ("2026-11-01", "2026-11-02"):
        await objects.put(f"runs/{day}/one", b"whole")
    parts = [tmp_path / "runs" / day / "two.7.7.part" for day in ("2026-11-01", "2026-11-02")]
    young = tmp_path / "runs" / "2026-11-02" / "three.8.8.part"
    for part in (*parts, young):
        part.write_bytes(b"half")
    now_s = young.stat().st_mtime
    whole = [tmp_path / "runs" / day / "one" for day in ("2026-11-01", "2026-11-02")]
    for path in (*parts, *whole):
        os.utime(path, (now_s, now_s - ABANDONED_AFTER_S - 5))

    await objects.put("runs/2026-11-02/four", b"whole")
    assert [part.exists() for part in (*parts, young)] == [True, False, True]

    await objects.put("runs/2026-11-03/five", b"whole")
    assert [part.exists() for part in (*parts, young)] == [False, False, True]
    assert [path.exists() for path in whole] == [True, True]

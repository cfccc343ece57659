"""External storage on a real S3 server: moto's, on loopback, for the time of this module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from perdure.converter import Payload
from perdure.errors import ExternalPayloadError, PayloadAlteredError, PayloadEncodeError
from perdure.storage import THRESHOLD_BYTES, ExternalStorage

BUCKET = "payloads"
LARGE = Payload("json/plain", b'"' + b"x" * THRESHOLD_BYTES + b'"')


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> Any:
    s3: Any = boto3.resource(
        "s3", endpoint_url=endpoint, region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )  # fmt: skip
    return s3.create_bucket(Bucket=BUCKET)


@pytest.fixture
def storage(endpoint: str, bucket: Any) -> ExternalStorage:
    return ExternalStorage(store(endpoint, BUCKET), prefix="perdure/orders")


def store(endpoint: str, bucket: str) -> S3Store:
    return S3Store(
        bucket,
        config={
            "endpoint": endpoint,
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
            "virtual_hosted_style_request": False,
        },
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


async def test_there_and_back(storage: ExternalStorage, bucket: Any) -> None:
    stored = await storage.store(LARGE)

    names = [one.key for one in bucket.objects.all()]
    assert len(names) == 1
    assert names[0].startswith("perdure/orders/sha256/")
    assert names[0].encode() in stored.data
    assert await storage.retrieve(stored) == LARGE


async def test_a_missing_and_an_altered_object(storage: ExternalStorage, bucket: Any) -> None:
    stored = await storage.store(LARGE)
    (found,) = [one.key for one in bucket.objects.all()]
    content = bucket.Object(found).get()["Body"].read()

    bucket.put_object(Key=found, Body=content[:-1] + b"!")
    with pytest.raises(PayloadAlteredError, match="is not what was written"):
        await storage.retrieve(stored)
    bucket.Object(found).delete()
    with pytest.raises(ExternalPayloadError, match="is missing"):
        await storage.retrieve(stored)


async def test_a_bucket_that_is_not_there(endpoint: str) -> None:
    storage = ExternalStorage(store(endpoint, "nowhere"))
    with pytest.raises(PayloadEncodeError, match="external storage did not take sha256/"):
        await storage.store(LARGE)

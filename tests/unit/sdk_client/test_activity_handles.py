"""Activities from outside and in processes: what is refused before anybody is asked."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from perdure import activity
from perdure._wire.activity_service import options_from_message
from perdure.cli.jsonable import to_jsonable
from perdure.client import Client
from perdure.common import ActivityOptionsUpdate, Priority, RetryPolicy
from perdure.converter import DataConverter, Payload, PayloadConverter
from perdure.worker import Worker
from perdure_api.v1 import common_pb2
from perdure_api.v1 import workflow_service_pb2 as pb


@pytest.mark.parametrize(
    "ids",
    [
        {},
        {"workflow_id": "w"},
        {"activity_id": "a"},
        {"workflow_id": "", "activity_id": "a"},
        {"task_token": b"t", "workflow_id": "w"},
        {"task_token": b"t", "activity_id": "a"},
    ],
)
async def test_a_handle_is_of_a_token_or_of_ids(ids: dict[str, Any]) -> None:
    async with await Client.connect("127.0.0.1:1", lazy=True) as client:
        with pytest.raises(ValueError, match="task_token"):
            client.get_async_activity_handle(**ids)


async def test_what_cannot_go_to_another_process_is_said_at_once() -> None:
    @activity.defn
    def local(number: int) -> int:
        return number

    @activity.defn
    async def on_the_loop(number: int) -> int:
        return number

    with ProcessPoolExecutor(1) as pool:
        async with await Client.connect("127.0.0.1:1", lazy=True) as client:
            with pytest.raises(TypeError, match=r"local .* must be picklable"):
                Worker(client, task_queue="q", activities=[local], activity_executor=pool)
            Worker(client, task_queue="q", activities=[on_the_loop], activity_executor=pool)


def test_payloads_and_converters_go_to_other_processes() -> None:
    import pickle

    converter = PayloadConverter()
    converter.from_payloads(converter.to_payloads([1, "a"]), [int, str])
    copy = pickle.loads(pickle.dumps(converter))
    assert copy.from_payload(Payload("json/plain", b"7"), int) == 7
    for payload in (Payload("json/plain", b"1"), Payload("x", b"", {"key": b"value"})):
        assert pickle.loads(pickle.dumps(payload)) == payload


def test_options_of_an_operator_are_shown() -> None:
    message = pb.ActivityOptions(
        task_queue="q",
        start_to_close_timeout_ms=5_000,
        retry_policy=common_pb2.RetryPolicy(
            initial_interval_ms=1_000, backoff_coefficient=2, maximum_attempts=3
        ),
        priority=2,
    )

    found = options_from_message(message)

    assert found == ActivityOptionsUpdate(
        task_queue="q",
        start_to_close_timeout=timedelta(seconds=5),
        retry_policy=RetryPolicy(maximum_attempts=3),
        priority=Priority(priority_key=2),
    )
    decode = DataConverter.default.payload_converter.from_payload
    assert to_jsonable(found, decode)["task_queue"] == "q"

"""How a client makes jobs: what travels together, what is sent again, and whose error is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.sdk_client.jobs_in_small import (
    BUSY,
    TOO_LARGE,
    UNAVAILABLE,
    WRONG,
    Answer,
    FakeService,
    Slept,
    client_over,
    job_id,
    raises,
    turn,
)

from perdure import job
from perdure._client.job_requests import JOBS_PER_MESSAGE_MAX, MESSAGES_IN_FLIGHT_MAX
from perdure._wire.payloads import payloads_from_bytes
from perdure.common import Priority, RetryPolicy
from perdure.converter import DataConverter, Payload, PayloadCodec
from perdure.errors import (
    JobsRefusedError,
    PayloadEncodeError,
    PayloadTooLargeError,
    RPCError,
    RPCStatusCode,
)
from perdure.job import Concurrency, ConcurrencyPolicy, NewJob, UniqueScope
from perdure_api.v1 import job_service_pb2 as pb

DENIED = RPCError("not for you", RPCStatusCode.PERMISSION_DENIED)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000


@job.defn
async def double(number: int) -> int:
    return 2 * number


def many(count: int) -> list[NewJob[int]]:
    return [job.new(double, number, queue="q") for number in range(count)]


def inputs(message: pb.CreateJobsRequest) -> list[bytes]:
    return [payloads_from_bytes(one.input)[0].data for one in message.jobs]


# ---- one


async def test_every_option_travels() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    await jobs.create(
        "mail",
        "ada",
        2,
        queue="mails",
        run_at=NOON,
        user_id="u1",
        timeout=timedelta(seconds=5),
        heartbeat_timeout=timedelta(seconds=6),
        retry_policy=RetryPolicy(maximum_attempts=7),
        priority=Priority(priority_key=1),
        idempotency_key="i",
        unique_key="u",
        unique_scope=UniqueScope.PERIOD,
        unique_period=timedelta(minutes=1),
        concurrency=Concurrency(
            key="c", limit=3, policy=ConcurrencyPolicy.CANCEL_NEWEST, rate_per_s=2.5
        ),
        expires_at=NOON + timedelta(hours=1),
    )
    await jobs.create("mail", delay=timedelta(seconds=3))
    await core.close()

    first, second = service.messages
    (asked,) = first.jobs
    assert (first.namespace, first.identity, first.request_id) == ("default", "me", "request-1")
    assert (asked.task_name, asked.task_queue, asked.due_time_us) == ("mail", "mails", NOON_US)
    assert [one.data for one in payloads_from_bytes(asked.input)] == [b'"ada"', b"2"]
    assert (asked.user_id, asked.timeout_ms, asked.heartbeat_timeout_ms) == ("u1", 5_000, 6_000)
    assert (asked.retry_policy.maximum_attempts, asked.priority) == (7, 1)
    assert (asked.idempotency_key, asked.unique_key) == ("i", "u")
    assert (asked.unique_scope, asked.unique_period_ms) == (pb.UNIQUE_SCOPE_PERIOD, 60_000)
    assert (asked.concurrency.key, asked.concurrency.limit) == ("c", 3)
    assert asked.concurrency.policy == pb.CONCURRENCY_POLICY_CANCEL_NEWEST
    assert asked.concurrency.rate_per_s == 2.5
    assert asked.expire_time_us == NOON_US + 3_600_000_000
    assert second.jobs[0].delay_ms == 3_000


async def test_what_is_not_given_is_not_sent() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    await jobs.create(double, 1, run_at=None, retry_policy=None)
    await core.close()

    (asked,) = service.messages[0].jobs
    assert {field.name for field, _ in asked.ListFields()} == {"task_name", "input"}


async def test_those_of_one_turn_travel_together() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    handles = await asyncio.gather(*(jobs.create(double, number) for number in range(50)))
    await core.close()

    (message,) = service.messages
    assert len(message.jobs) == 50
    assert [one.id for one in handles] == [job_id(number) for number in range(50)]
    assert all(one.created for one in handles)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"colour": "red"}, TypeError),
        ({"run_at": NOON, "delay": timedelta(1)}, ValueError),
    ],
)
async def test_options_that_make_no_sense(options: Any, error: type[Exception]) -> None:
    service = FakeService()
    jobs, core = client_over(service)
    with pytest.raises(error):
        await jobs.create("mail", **options)
    with pytest.raises(PayloadEncodeError):
        await jobs.create("mail", float("nan"))
    await core.close()
    assert service.messages == []


async def test_one_that_is_refused_does_not_disturb_the_others() -> None:
    service = FakeService()
    service.answers.append(lambda made: [made[0], WRONG, made[2]])
    jobs, core = client_over(service)
    first, second, third = await asyncio.gather(
        *(jobs.create(double, number) for number in range(3)), return_exceptions=True
    )
    await core.close()

    assert isinstance(second, RPCError)
    assert second.status is RPCStatusCode.INVALID_ARGUMENT
    assert [one.id for one in (first, third) if not isinstance(one, BaseException)] == [
        job_id(0),
        job_id(2),
    ]


@pytest.mark.parametrize("error", [UNAVAILABLE, BUSY])
async def test_what_may_not_have_arrived_is_sent_again_as_it_was(error: RPCError) -> None:
    service, slept = FakeService(), Slept()
    service.answers += [raises(error), lambda made: [error, made[1]]]
    jobs, core = client_over(service, sleep=slept)
    handles = await asyncio.gather(*(jobs.create(double, number) for number in range(2)))
    await core.close()

    first, second, third = service.messages
    assert first == second == third
    assert [one.id for one in handles] == [job_id(0), job_id(1)]
    assert len(slept.delays) == 2
    assert error is not BUSY or slept.delays == [0.5, 0.5]


async def test_a_creation_may_have_less_time() -> None:
    service = FakeService()
    service.held = asyncio.Event()
    jobs, core = client_over(service)
    with pytest.raises(RPCError) as caught:
        await jobs.create(double, 1, rpc_timeout=timedelta(milliseconds=1))
    await core.close()

    assert caught.value.status is RPCStatusCode.DEADLINE_EXCEEDED


# ---- many


async def test_thousands_travel_by_the_thousand_and_some_at_once() -> None:
    service = FakeService()
    service.held = asyncio.Event()
    jobs, core = client_over(service)
    making = asyncio.ensure_future(jobs.create_many(many(6_500)))
    await turn()
    assert service.flying == MESSAGES_IN_FLIGHT_MAX
    service.held.set()
    handles = await making
    await core.close()

    assert [len(one.jobs) for one in service.messages] == [JOBS_PER_MESSAGE_MAX] * 6 + [500]
    assert service.flying_max == MESSAGES_IN_FLIGHT_MAX
    assert len({one.request_id for one in service.messages}) == 7
    assert len({one.id for one in handles}) == len(handles) == 6_500


async def test_handles_are_in_the_order_of_their_jobs() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    handles = await jobs.create_many(many(2_500))
    await core.close()

    numbers = [int(data) for message in service.messages for data in inputs(message)]
    by_number = {number: job_id(place) for place, number in enumerate(numbers)}
    assert [one.id for one in handles] == [by_number[number] for number in range(2_500)]


async def test_large_inputs_make_smaller_messages() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    large = "x" * 400_000
    await jobs.create_many([job.new("mail", large) for _ in range(5)])
    await core.close()

    assert [len(one.jobs) for one in service.messages] == [2, 2, 1]


async def test_a_message_that_is_too_large_all_the_same_goes_in_halves() -> None:
    service = FakeService()
    service.answers.append(raises(TOO_LARGE))
    jobs, core = client_over(service)
    handles = await jobs.create_many(many(5))
    await core.close()

    whole, first, second = service.messages
    assert inputs(whole) == inputs(first) + inputs(second)
    assert len({one.request_id for one in service.messages}) == 3
    assert len({one.id for one in handles}) == 5


async def test_a_repeated_message_of_many_is_the_same() -> None:
    service = FakeService()
    service.answers += [raises(UNAVAILABLE), lambda made: [*made[:3], UNAVAILABLE, *made[4:]]]
    jobs, core = client_over(service)
    handles = await jobs.create_many(many(10))
    await core.close()

    first, second, third = service.messages
    assert first == second == third
    assert [one.id for one in handles] == [job_id(number) for number in range(10)]


async def test_those_that_were_refused_are_told_with_the_handles_of_the_others() -> None:
    service = FakeService()
    service.answers.append(lambda made: [WRONG, *made[1:]])
    jobs, core = client_over(service)
    unencodable: NewJob[Any] = job.new("mail", float("inf"))
    misspelt: NewJob[Any] = NewJob("mail", (), {"colour": "red"}, Any)  # type: ignore[typeddict-unknown-key]
    with pytest.raises(JobsRefusedError, match="3 of 4 jobs were not made; number 0") as caught:
        await jobs.create_many([many(1)[0], unencodable, misspelt, many(1)[0]])
    await core.close()

    errors = caught.value.errors
    assert errors[0] is WRONG
    assert isinstance(errors[1], PayloadEncodeError)
    assert isinstance(errors[2], TypeError)
    assert [one is None for one in caught.value.handles] == [True, True, True, False]
    assert caught.value.handles[3].id == job_id(1)


async def test_when_none_was_made_what_refused_them_is_raised() -> None:
    service = FakeService()
    nowhere = RPCError("no such namespace", RPCStatusCode.NOT_FOUND)
    service.answers += [raises(nowhere)] * 2
    jobs, core = client_over(service)
    with pytest.raises(RPCError, match="no such namespace"):
        await jobs.create_many(many(1_500))
    await core.close()


async def test_none_at_all() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    assert await jobs.create_many([]) == []
    await core.close()
    assert service.messages == []


# ---- batches


async def test_only_the_last_message_of_a_batch_seals_it() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    handles = await jobs.batch("b1", many(2_500), callback=job.callback("done"))
    await core.close()

    assert [one.batch.more for one in service.messages] == [True, True, False]
    assert {one.batch.batch_id for one in service.messages} == {"b1"}
    assert {one.batch.callback.task_name for one in service.messages} == {"done"}
    assert service.flying_max == 1
    assert len(handles) == 2_500


async def test_halves_of_a_batchs_message_seal_it_together() -> None:
    service = FakeService()
    service.answers.append(raises(TOO_LARGE))
    jobs, core = client_over(service)
    handles = await jobs.batch("b1", many(5))
    await core.close()

    assert [one.batch.more for one in service.messages] == [False, True, False]
    assert [len(one.jobs) for one in service.messages] == [5, 2, 3]
    assert len(handles) == 5


@pytest.mark.parametrize("lost", [raises(DENIED), lambda made: [UNAVAILABLE, *made[1:]]])
async def test_a_batch_is_not_sealed_when_its_first_half_is_not_saved(
    lost: Callable[[Answer], Answer],
) -> None:
    service = FakeService()
    service.answers += [raises(TOO_LARGE), *[lost] * 50]
    jobs, core = client_over(service)
    with pytest.raises((RPCError, JobsRefusedError)):
        await jobs.batch("b1", many(5), rpc_timeout=timedelta(milliseconds=200))
    await core.close()

    assert {one.batch.more for one in service.messages[1:]} == {True}


async def test_a_batch_is_not_sealed_when_its_first_message_could_not_be_encoded() -> None:
    class OutForAMoment(Reversing):
        async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
            try:
                return await super().encode(payloads)
            finally:
                self.breaks = False

    service = FakeService()
    codec = OutForAMoment(breaks=True)
    jobs, core = client_over(service, DataConverter(payload_codec=codec))
    with pytest.raises(JobsRefusedError) as caught:
        await jobs.batch("b1", [job.new("mail", n) for n in range(1_500)])
    await core.close()

    assert service.messages == []
    assert len(caught.value.errors) == 1_500
    assert isinstance(caught.value.errors[0], PayloadEncodeError)
    assert isinstance(caught.value.errors[1_499], RPCError)


async def test_a_batch_stays_open_or_is_sealed_alone() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    await jobs.batch("b1", many(2), sealed=False)
    assert await jobs.batch("b1", []) == []
    await core.close()

    opened, sealed = service.messages
    assert (opened.batch.more, len(opened.jobs)) == (True, 2)
    assert (sealed.batch.more, len(sealed.jobs)) == (False, 0)
    assert not opened.batch.HasField("callback")


async def test_a_batch_whose_jobs_are_not_all_saved_is_not_sealed() -> None:
    """Its callback would come although not all jobs are in."""
    service = FakeService()
    service.answers += [raises(UNAVAILABLE)] * 50
    jobs, core = client_over(service)
    with pytest.raises(RPCError) as caught:
        await jobs.batch("b1", many(1_500), rpc_timeout=timedelta(milliseconds=200))
    await core.close()

    assert caught.value.status is RPCStatusCode.UNAVAILABLE
    assert all(one.batch.more for one in service.messages)


# ---- codecs


class Reversing(PayloadCodec):
    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self.breaks:
            raise RuntimeError("no key")
        return [Payload("x/reversed", one.data[::-1]) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload("json/plain", one.data[::-1]) for one in payloads]


async def test_inputs_pass_the_codec_once_however_often_they_are_sent() -> None:
    service = FakeService()
    service.answers.append(raises(UNAVAILABLE))
    jobs, core = client_over(service, DataConverter(payload_codec=Reversing()))
    await jobs.create_many([job.new("mail", 123), job.new("mail", 456)])
    await core.close()

    first, second = service.messages
    assert first == second
    assert inputs(first) == [b"321", b"654"]


async def test_what_a_codec_cannot_encode_is_not_sent() -> None:
    service = FakeService()
    jobs, core = client_over(service, DataConverter(payload_codec=Reversing(breaks=True)))
    with pytest.raises(PayloadEncodeError, match=r"jobs\[0\]\.input.*no key"):
        await jobs.create("mail", 1)
    await core.close()
    assert service.messages == []


async def test_b7_an_input_over_the_engines_limit_is_refused_here() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    with pytest.raises(PayloadTooLargeError):
        await jobs.create("mail", "x" * (2 * 1024 * 1024))
    await core.close()
    assert service.messages == []

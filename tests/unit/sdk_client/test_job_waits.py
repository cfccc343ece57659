"""How a client waits for jobs: all waits share one long poll, and each hears of its own job."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from google.rpc import status_pb2  # type: ignore[import-untyped]  # no py.typed
from tests.unit.sdk_client.jobs_in_small import (
    UNAVAILABLE,
    FakeService,
    Slept,
    client_over,
    job_id,
    turn,
)

from perdure._client.job_waits import JOBS_PER_POLL_MAX, PAUSE_S_PER_JOB
from perdure._client.jobs import Jobs
from perdure._wire.payloads import payloads_to_bytes
from perdure.converter import PayloadConverter
from perdure.errors import (
    ApplicationError,
    JobCancelledError,
    JobFailedError,
    JobSkippedError,
    RPCError,
    RPCStatusCode,
)
from perdure_api.v1 import job_service_pb2 as pb

NOT_FOUND = status_pb2.Status(code=5, message="the job does not exist").SerializeToString()


def encoded(value: Any) -> bytes:
    return payloads_to_bytes(PayloadConverter.default.to_payloads([value]))


def wait(jobs: Jobs, number: int, **options: Any) -> asyncio.Future[Any]:
    return asyncio.ensure_future(jobs.get(job_id(number)).result(**options))


async def test_waits_of_one_turn_are_one_poll() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    waits = [wait(jobs, number) for number in range(20)]
    await turn()
    assert [len(asked) for asked in service.asked] == [20]

    for number in range(20):
        service.end(job_id(number), result=encoded(number))
    assert await asyncio.gather(*waits) == list(range(20))
    await turn()
    assert len(service.asked) == 1
    await core.close()


async def test_a_wait_that_begins_later_replaces_the_poll() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    first = wait(jobs, 1)
    await turn()
    second = wait(jobs, 2)
    await turn()
    assert service.asked == [[job_id(1)], [job_id(1), job_id(2)]]

    service.end(job_id(2), result=encoded("two"))
    assert await second == "two"
    await turn()
    assert service.asked[-1] == [job_id(1)]
    service.end(job_id(1))
    assert await first is None
    await core.close()


async def test_several_may_wait_for_one_job() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    waits = [wait(jobs, 1), wait(jobs, 1)]
    await turn()
    waits[0].cancel()
    await turn()
    service.end(job_id(1), result=encoded(5))
    assert await waits[1] == 5
    assert {tuple(asked) for asked in service.asked} == {(job_id(1),)}
    await core.close()


async def test_a_wait_that_is_given_up_is_not_asked_for_again() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    first, second = wait(jobs, 1), wait(jobs, 2)
    await turn()
    first.cancel()
    await turn()
    service.end(job_id(9))
    third = wait(jobs, 3)
    await turn()

    assert service.asked[-1] == [job_id(2), job_id(3)]
    for waiting in (second, third):
        waiting.cancel()
    await core.close()


async def test_more_than_a_poll_asks_for_have_their_turns() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    count = JOBS_PER_POLL_MAX + 500
    for number in range(count):
        service.end(job_id(number), result=encoded(number))

    results = await asyncio.gather(*(wait(jobs, number) for number in range(count)))

    assert results == list(range(count))
    assert [len(asked) for asked in service.asked] == [JOBS_PER_POLL_MAX, 500]
    await core.close()


async def test_what_is_asked_for_again_goes_to_the_end_of_the_line() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    count = JOBS_PER_POLL_MAX + 10
    service.end(job_id(0))
    waits = [wait(jobs, number) for number in range(count)]
    await turn(20)

    first, second = service.asked[:2]
    assert first == [job_id(number) for number in range(JOBS_PER_POLL_MAX)]
    assert second[:10] == [job_id(JOBS_PER_POLL_MAX + number) for number in range(10)]
    for waiting in waits:
        waiting.cancel()
    await core.close()


async def test_the_pause_grows_with_what_is_asked_for_again() -> None:
    service, slept = FakeService(), Slept()
    jobs, core = client_over(service, sleep=slept)
    service.end(job_id(0))
    waits = [wait(jobs, number) for number in range(101)]
    await turn(20)
    assert slept.delays == [100 * PAUSE_S_PER_JOB]

    for number in range(1, 101):
        service.end(job_id(number))
    await asyncio.gather(*waits)
    await core.close()


async def test_one_alone_is_asked_for_at_once() -> None:
    service, slept = FakeService(), Slept()
    jobs, core = client_over(service, sleep=slept)
    service.end(job_id(0))
    waits = [wait(jobs, 0), wait(jobs, 1)]
    await turn(20)
    assert service.asked == [[job_id(0), job_id(1)], [job_id(1)]]
    assert slept.delays == []
    waits[1].cancel()
    await core.close()


@pytest.mark.parametrize("error", [UNAVAILABLE, RPCError("late", RPCStatusCode.DEADLINE_EXCEEDED)])
async def test_a_wait_outlives_an_engine_that_is_away(error: RPCError) -> None:
    service = FakeService()
    service.asking_fails += [error, error]
    jobs, core = client_over(service)
    service.end(job_id(1), result=encoded(1))

    assert await wait(jobs, 1) == 1
    assert len(service.asked) == 3
    await core.close()


async def test_what_no_waiting_mends_is_told_to_all() -> None:
    service = FakeService()
    service.asking_fails.append(RPCError("no such namespace", RPCStatusCode.NOT_FOUND))
    jobs, core = client_over(service)
    found = await asyncio.gather(wait(jobs, 1), wait(jobs, 2), return_exceptions=True)

    assert [str(one) for one in found] == ["no such namespace"] * 2
    assert found[0] is not found[1]
    service.end(job_id(3))
    assert await wait(jobs, 3) is None
    await core.close()


async def test_a_job_that_does_not_exist_is_that_waits_own_affair() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    service.end(job_id(1), status=0, error=NOT_FOUND)
    service.end(job_id(2))
    found = await asyncio.gather(wait(jobs, 1), wait(jobs, 2), return_exceptions=True)

    assert isinstance(found[0], RPCError)
    assert found[0].status is RPCStatusCode.NOT_FOUND
    assert found[1] is None
    await core.close()


@pytest.mark.parametrize("text", ["", "job-1", "x" * 36, job_id(1)[:-1]])
async def test_b4_what_is_no_job_id_never_reaches_the_others(text: str) -> None:
    service = FakeService()
    jobs, core = client_over(service)
    with pytest.raises(RPCError) as caught:
        await jobs.get(text).result()
    await core.close()

    assert caught.value.status is RPCStatusCode.INVALID_ARGUMENT
    assert service.asked == []


async def test_a_wait_may_have_a_limit() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    with pytest.raises(RPCError) as caught:
        await wait(jobs, 1, rpc_timeout=timedelta(milliseconds=1))

    assert caught.value.status is RPCStatusCode.DEADLINE_EXCEEDED
    await core.close()


async def test_a_client_that_is_closed_fails_its_waits() -> None:
    service = FakeService()
    jobs, core = client_over(service)
    waiting = wait(jobs, 1)
    await turn()
    await core.close()

    with pytest.raises(RPCError, match="closed"):
        await waiting


# ---- how jobs end


async def ended(**fields: Any) -> BaseException:
    service = FakeService()
    jobs, core = client_over(service)
    service.end(job_id(1), **fields)
    (found,) = await asyncio.gather(wait(jobs, 1), return_exceptions=True)
    await core.close()
    assert isinstance(found, BaseException)
    return found


async def test_a_job_that_failed_has_its_causes() -> None:
    inner = {"message": "disk full", "application": {"type": "OSError"}}
    failure = {"message": "not saved", "application": {"type": "SaveError"}, "cause": inner}
    found = await ended(status=pb.JOB_STATUS_FAILED, failure=failure)

    assert isinstance(found, JobFailedError)
    assert (found.job_id, str(found)) == (
        job_id(1),
        f"job {job_id(1)} failed: SaveError: not saved",
    )
    assert isinstance(found.cause, ApplicationError)
    assert (found.cause.type, found.cause.message) == ("SaveError", "not saved")
    assert isinstance(found.cause.cause, ApplicationError)
    assert found.cause.cause.type == "OSError"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (pb.JOB_STATUS_CANCELLED, JobCancelledError),
        (pb.JOB_STATUS_SKIPPED, JobSkippedError),
        (pb.JOB_STATUS_FAILED, JobFailedError),
        (99, JobFailedError),
    ],
)
async def test_other_ends(status: Any, kind: type[Exception]) -> None:
    found = await ended(status=status, reason="the operator's")

    assert type(found) is kind
    assert "the operator's" in str(found)

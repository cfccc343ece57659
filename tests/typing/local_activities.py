"""What mypy and pyright make of calling local activities, patches and handlers. Checked, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_type

from perdure import activity, workflow
from perdure.common import RawValue

LIMIT = timedelta(seconds=10)


@activity.defn
async def charge(amount: int, currency: str = "EUR") -> bytes:
    return b""


@activity.defn
def send(to: str) -> str:
    return to


class Mail:
    @activity.defn
    async def deliver(self, to: str, copies: int) -> bool:
        return True


@activity.defn
class Count:
    async def __call__(self, box: str) -> int:
        return 0


@activity.defn
class Weigh:
    def __call__(self, box: str) -> float:
        return 0.0


async def right_calls() -> None:
    assert_type(
        await workflow.execute_local_activity(charge, 1, start_to_close_timeout=LIMIT), bytes
    )
    assert_type(
        await workflow.execute_local_activity(
            send, "bob", schedule_to_close_timeout=LIMIT, local_retry_threshold=LIMIT
        ),
        str,
    )
    assert_type(
        await workflow.execute_local_activity(
            "charge", 1, result_type=bytes, start_to_close_timeout=LIMIT
        ),
        bytes,
    )
    assert_type(
        await workflow.execute_local_activity_method(
            Mail.deliver, "bob", 2, start_to_close_timeout=LIMIT
        ),
        bool,
    )
    assert_type(
        await workflow.execute_local_activity_class(Count, "in", start_to_close_timeout=LIMIT), int
    )
    assert_type(
        await workflow.execute_local_activity_class(Weigh, "in", start_to_close_timeout=LIMIT),
        float,
    )
    handle = workflow.start_local_activity(charge, args=[1, "USD"], start_to_close_timeout=LIMIT)
    assert_type(handle, workflow.ActivityHandle[bytes])
    assert_type(workflow.patched("x"), bool)
    workflow.deprecate_patch("x")
    workflow.upsert_memo({"a": None, "b": 1})
    await workflow.sleep(1, summary="naps")
    await workflow.wait_condition(lambda: True, timeout=1, timeout_summary="gives up")


@workflow.defn(dynamic=True)
class Anything:
    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> None: ...

    @workflow.signal(dynamic=True, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def hear(self, name: str, args: Sequence[RawValue]) -> None: ...

    @workflow.query(dynamic=True, description="anything")
    def tell(self, name: str, args: Sequence[RawValue]) -> str:
        return name


async def wrong_calls() -> None:
    await workflow.execute_local_activity(charge, "one", start_to_close_timeout=LIMIT)  # type: ignore[arg-type]
    await workflow.execute_local_activity(charge, 1, heartbeat_timeout=LIMIT)  # type: ignore[call-overload]
    await workflow.execute_local_activity_class(Count, 1, start_to_close_timeout=LIMIT)  # type: ignore[misc]

"""What mypy and pyright make of calling activities. Checked, never run.

Wrong calls carry an ignore, for both checkers: where one of them finds nothing wrong, it says that
the ignore is not needed.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from perdure import activity, workflow
from perdure.common import RawValue, RetryPolicy

LIMIT = timedelta(seconds=10)


@dataclass
class Receipt:
    number: int


@activity.defn
async def charge(amount: int, currency: str = "EUR") -> Receipt:
    return Receipt(amount)


@activity.defn(name="post")
def send(to: str) -> str:
    return to


@activity.defn
async def nothing() -> None: ...


class Mail:
    @activity.defn
    async def deliver(self, to: str, copies: int) -> bool:
        return True

    @activity.defn
    def count(self, box: str) -> int:
        return 0


async def right_calls() -> None:
    assert_type(await workflow.execute_activity(charge, 1, start_to_close_timeout=LIMIT), Receipt)
    assert_type(
        await workflow.execute_activity(charge, 1, "USD", schedule_to_close_timeout=LIMIT), Receipt
    )
    assert_type(await workflow.execute_activity(send, "bob", start_to_close_timeout=LIMIT), str)
    assert_type(await workflow.execute_activity(nothing, start_to_close_timeout=LIMIT), None)
    assert_type(
        await workflow.execute_activity(
            charge,
            args=[1, "USD"],
            start_to_close_timeout=LIMIT,
            retry_policy=RetryPolicy(maximum_attempts=3),
            cancellation_type=workflow.ActivityCancellationType.ABANDON,
        ),
        Receipt,
    )
    assert_type(
        await workflow.execute_activity(
            "charge", 1, result_type=Receipt, start_to_close_timeout=LIMIT
        ),
        Receipt,
    )
    assert_type(
        await workflow.execute_activity_method(
            Mail.deliver, "bob", 2, start_to_close_timeout=LIMIT
        ),
        bool,
    )
    assert_type(
        await workflow.execute_activity_method(Mail.count, "in", start_to_close_timeout=LIMIT), int
    )
    assert_type(
        await workflow.execute_activity(Mail().deliver, "bob", 2, start_to_close_timeout=LIMIT),
        bool,
    )


async def handles() -> None:
    handle = workflow.start_activity(charge, 1, start_to_close_timeout=LIMIT)
    assert_type(handle, workflow.ActivityHandle[Receipt])
    assert_type(await handle, Receipt)
    assert_type(handle.cancel(), bool)
    assert_type(await workflow.start_activity(send, "bob", start_to_close_timeout=LIMIT), str)
    assert_type(
        await workflow.start_activity_method(Mail.count, "in", start_to_close_timeout=LIMIT), int
    )


async def wrong_calls() -> None:
    await workflow.execute_activity(charge, "one", start_to_close_timeout=LIMIT)  # type: ignore[arg-type]
    await workflow.execute_activity(charge, start_to_close_timeout=LIMIT)  # type: ignore[call-arg,arg-type]
    await workflow.execute_activity(send, "a", "b", start_to_close_timeout=LIMIT)  # type: ignore[call-arg,arg-type]
    await workflow.execute_activity(nothing, 1, start_to_close_timeout=LIMIT)  # type: ignore[arg-type]
    await workflow.execute_activity(charge, 1, start_to_close_timeout=10)  # type: ignore[call-overload]
    await workflow.execute_activity(charge, 1, start_to_close=LIMIT)  # type: ignore[call-overload]
    await workflow.execute_activity_method(Mail.deliver, "bob", start_to_close_timeout=LIMIT)  # type: ignore[arg-type]
    workflow.start_activity(send, 1, start_to_close_timeout=LIMIT)  # type: ignore[arg-type]
    workflow.start_activity(3, start_to_close_timeout=LIMIT)  # type: ignore[call-overload]


@activity.defn
class Translate:
    async def __call__(self, text: str, to: str) -> bytes:
        return text.encode()


async def classes() -> None:
    assert_type(
        await workflow.execute_activity_class(Translate, "a", "de", start_to_close_timeout=LIMIT),
        bytes,
    )
    handle = workflow.start_activity_class(Translate, "a", "de", start_to_close_timeout=LIMIT)
    assert_type(handle, workflow.ActivityHandle[bytes])
    await workflow.execute_activity_class(Translate, 1, "de", start_to_close_timeout=LIMIT)  # type: ignore[call-arg,arg-type]


@activity.defn(dynamic=True)
async def anything(args: Sequence[RawValue]) -> str:
    await activity.checkpoint(len(args))
    activity.raise_complete_async()

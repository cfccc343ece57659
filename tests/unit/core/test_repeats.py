"""What a repeat is known by: all that the call says, in this version and in later ones (B55)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.intents import CancelJob, RedriveJob
from perdure_engine.core.repeats import body_of, require_same
from perdure_engine.frontend.new_jobs import AskedJob, JobOptions, body_hash

REQUEST = b"request---------"
CANCEL = CancelJob(namespace_id=b"n", job_id=b"j", request_id=REQUEST, reason="late")


def later(before: msgspec.Struct, **fields: Any) -> msgspec.Struct:
    """The same call, as a version makes it that has more to say: nothing of it, unless `fields` says so."""
    kind = type(before)
    grown = msgspec.defstruct(
        kind.__name__, [("urgent", bool, False)], bases=(kind,), frozen=True, kw_only=True
    )
    return grown(**msgspec.structs.asdict(before), **fields)


def test_the_same_call_is_a_repeat_whoever_says_it() -> None:
    again = msgspec.structs.replace(CANCEL, request_id=b"another---------", identity="me")
    require_same(body_of(CANCEL), again)


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(CANCEL, reason=""),
        msgspec.structs.replace(CANCEL, job_id=b"k"),
        RedriveJob(namespace_id=b"n", job_id=b"j", request_id=REQUEST, reason="late"),
    ],
)
def test_another_call_is_refused(other: msgspec.Struct) -> None:
    with pytest.raises(Rejected) as refused:
        require_same(body_of(CANCEL), other)
    assert (refused.value.code, refused.value.reason) == (
        Code.INVALID_ARGUMENT,
        "REQUEST_ID_REUSED",
    )


def test_a_call_of_before_an_upgrade_is_known_after_it() -> None:
    """What it could not say, it does not say otherwise."""
    require_same(body_of(CANCEL), later(CANCEL))
    assert body_of(later(CANCEL, urgent=True)) != body_of(CANCEL)


def test_a_job_of_before_an_upgrade_is_known_after_it() -> None:
    options = JobOptions(task_name="charge", user_id="ada", idempotency_key="k")
    grown = later(options)
    assert isinstance(grown, JobOptions)

    assert body_hash(AskedJob(grown, b"in")) == body_hash(AskedJob(options, b"in"))
    others = (later(options, urgent=True), msgspec.structs.replace(options, user_id=""))
    for other in others:
        assert isinstance(other, JobOptions)
        assert body_hash(AskedJob(other, b"in")) != body_hash(AskedJob(options, b"in"))

"""Policies and numbers that stand on the wire."""

from datetime import timedelta
from typing import Any

import pytest

from perdure import errors
from perdure.common import (
    Priority,
    RetryPolicy,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
    WorkflowStatus,
)
from perdure_api.v1 import common_pb2, workflow_service_pb2


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_interval": timedelta(0)},
        {"backoff_coefficient": 0.5},
        {"backoff_coefficient": float("nan")},
        {"backoff_coefficient": float("inf")},
        {"maximum_interval": timedelta(milliseconds=1)},
        {"maximum_attempts": -1},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        RetryPolicy(**fields)


def test_a_priority_is_positive() -> None:
    assert Priority(priority_key=1).priority_key == 1
    with pytest.raises(ValueError, match="at least 1"):
        Priority(priority_key=0)


@pytest.mark.parametrize(
    ("ours", "wire", "prefix"),
    [
        (WorkflowStatus, common_pb2.WorkflowStatus, "WORKFLOW_STATUS"),
        (
            WorkflowIdReusePolicy,
            common_pb2.WorkflowIdReusePolicy,
            "WORKFLOW_ID_REUSE_POLICY",
        ),
        (
            WorkflowIdConflictPolicy,
            workflow_service_pb2.WorkflowIdConflictPolicy,
            "WORKFLOW_ID_CONFLICT_POLICY",
        ),
        (errors.TimeoutType, common_pb2.TimeoutType, "TIMEOUT_TYPE"),
        (errors.RetryState, common_pb2.RetryState, "RETRY_STATE"),
    ],
)
def test_numbers_are_those_of_the_wire(ours: Any, wire: Any, prefix: str) -> None:
    expected = {name.removeprefix(prefix + "_"): number for name, number in wire.items()}
    if "UNSPECIFIED" not in ours.__members__:
        del expected["UNSPECIFIED"]

    assert {one.name: one.value for one in ours} == expected

"""Versions of workers, in both directions."""

from __future__ import annotations

from perdure_api.v1 import common_pb2
from perdure_api.v1 import version_service_pb2 as pb
from perdure_engine.core.deployments import WHOLE, Deployment
from perdure_engine.core.errors import invalid
from perdure_engine.core.versions import Behavior, Versioning
from perdure_engine.frontend.handlers.get_reachability import BuildReach, Reachability
from perdure_engine.transport.grpc.convert.fields import Fields


def behavior_of(field: str, number: int) -> Behavior:
    try:
        return Behavior(number)
    except ValueError:
        raise invalid(field, "is unknown to this version") from None


def versioning_of(field: str, message: common_pb2.Versioning) -> Versioning:
    behavior = behavior_of(f"{field}.behavior", message.behavior)
    return Versioning(behavior, message.deployment_name, message.build_id)


def versioning_fields(versioning: Versioning | None) -> Fields:
    if versioning is None:
        return None
    return {
        "behavior": versioning.behavior,
        "deployment_name": versioning.deployment_name,
        "build_id": versioning.build_id,
    }


def share_of_percentage(percentage: float) -> int:
    """In hundredths of a percent. Raises INVALID_ARGUMENT for what is no share."""
    if not 0 <= percentage <= 100:  # also NaN
        raise invalid("percentage", "must be between 0 and 100")
    return round(percentage * WHOLE / 100)


def percentage_of(ramp_share: int) -> float:
    return ramp_share * 100 / WHOLE


def deployment_fields(deployment: Deployment, builds: list[BuildReach]) -> Fields:
    return {
        "name": deployment.name,
        "conflict_token": deployment.revision,
        "current_build_id": deployment.current,
        "ramping_build_id": deployment.ramping,
        "ramping_percentage": percentage_of(deployment.ramp_share),
        "versions": [version_fields(build) for build in builds],
        "changed_by": deployment.changed_by,
        "changed_time_us": deployment.changed_us,
    }


def version_fields(reach: BuildReach) -> Fields:
    build = reach.build
    return {
        "build_id": build.build_id,
        "status": reach.status,
        "created_time_us": build.created_us,
        "stopped_time_us": build.stopped_us,
        "retired_time_us": build.retired_us,
        "task_queues": build.queues,
        "pinned_runs": reach.pinned_runs,
        "upgrading_runs": reach.upgrading_runs,
    }


def reachability(answer: Reachability) -> pb.GetReachabilityResponse:
    return pb.GetReachabilityResponse(
        version=version_fields(answer.reach),
        new_runs=answer.new_runs,
        last_close_time_us=answer.last_close_us,
        retirable_time_us=answer.retirable_us,
    )

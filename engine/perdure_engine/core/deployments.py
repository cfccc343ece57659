"""Deployments: the versions of one program's workers, and which of them gets new work.

Each function below is one decision: it returns the deployment as it will be, or raises Rejected.
The row is changed by compare-and-set, so that two operators cannot undo each other unseen.

    INACTIVE ──▶ CURRENT | RAMPING ──▶ DRAINING ──▶ DRAINED ──▶ RETIRED
                      ▲                    │           │
                      └────────────────────┴───────────┘

DRAINING and DRAINED are not saved: they are what the open runs say when somebody asks.
"""

from __future__ import annotations

import enum
import hashlib

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid, not_found
from perdure_engine.core.versions import version_name

WHOLE = 10_000  # a share of the runs, in hundredths of a percent


class VersionStatus(enum.IntEnum):
    INACTIVE = 1
    CURRENT = 2
    RAMPING = 3
    DRAINING = 4
    DRAINED = 5
    RETIRED = 6


class Build(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One version of a deployment. Appended to only."""

    build_id: str
    created_us: int
    queues: tuple[str, ...] = ()  # that its workers have polled
    stopped_us: int = 0  # when it was current or ramping last; 0: it is, or never was
    retired_us: int = 0


class Deployment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Appended to only. `revision` is the row's conflict token; 0: not saved yet."""

    name: str
    revision: int = 0
    current: str = ""  # build id; "": workers that name no version
    ramping: str = ""
    ramp_share: int = 0  # of WHOLE
    builds: tuple[Build, ...] = ()  # oldest first
    changed_by: str = ""
    changed_us: int = 0

    def build(self, build_id: str) -> Build | None:
        return next((build for build in self.builds if build.build_id == build_id), None)

    def serves(self, build_id: str, queue: str) -> bool:
        build = self.build(build_id)
        return build is not None and queue in build.queues

    def require(self, build_id: str) -> Build:
        build = self.build(build_id)
        if build is None:
            version = version_name(self.name, build_id)
            raise not_found("VERSION", f"no worker of version {version!r} was ever seen")
        return build


def status_of(deployment: Deployment, build: Build, pinned_runs: int) -> VersionStatus:
    if build.retired_us:
        return VersionStatus.RETIRED
    if build.build_id == deployment.current:
        return VersionStatus.CURRENT
    if build.build_id == deployment.ramping:
        return VersionStatus.RAMPING
    if pinned_runs:
        return VersionStatus.DRAINING
    return VersionStatus.DRAINED if build.stopped_us else VersionStatus.INACTIVE


# ---- which version a run goes to


def share_of(run_id: bytes) -> int:
    """Where a run stands on the line from 0 to WHOLE: the same for ever, and on every node."""
    digest = hashlib.blake2b(run_id, digest_size=8, person=b"perdure ramp").digest()
    return int.from_bytes(digest, "big") % WHOLE


class Route(msgspec.Struct, frozen=True):
    """Of one queue: versions by name, "" for workers without one."""

    current: str
    ramping: str
    ramp_share: int

    def pick(self, run_id: bytes) -> str:
        if self.ramp_share and share_of(run_id) < self.ramp_share:
            return self.ramping
        return self.current


def route_of(deployment: Deployment, queue: str) -> Route:
    """A version that does not poll the queue gets nothing of it: that goes to workers without a version."""
    current = ramping = ""
    if deployment.serves(deployment.current, queue):
        current = version_name(deployment.name, deployment.current)
    if deployment.serves(deployment.ramping, queue):
        ramping = version_name(deployment.name, deployment.ramping)
    return Route(current, ramping, deployment.ramp_share if ramping else 0)


# ---- decisions


def register(deployment: Deployment, build_id: str, queue: str | None, now_us: int) -> Deployment:
    """A worker of the version was seen, polling the queue; or (None) it is about to come."""
    build = deployment.build(build_id)
    if build is None:
        build = Build(build_id, now_us)
        builds = _with_room(deployment)
    else:
        builds = tuple(one for one in deployment.builds if one.build_id != build_id)
    require_not_retired(deployment, build_id)
    if queue is not None and queue not in build.queues:
        if len(build.queues) >= limits.QUEUES_OF_VERSION_MAX:
            raise _too_many("task queues of a version", limits.QUEUES_OF_VERSION_MAX)
        build = msgspec.structs.replace(build, queues=(*build.queues, queue))
    return _with(deployment, builds, build)


def set_current(
    deployment: Deployment,
    build_id: str,
    now_us: int,
    identity: str,
    *,
    ignore_missing_queues: bool = False,
    allow_no_pollers: bool = False,
) -> Deployment:
    """What was current stops; a ramping version that becomes current does not ramp any more."""
    found = _ready_for_runs(deployment, build_id, now_us, ignore_missing_queues, allow_no_pollers)
    if build_id == found.ramping:
        found = msgspec.structs.replace(found, ramping="", ramp_share=0)
    return _routed(deployment, found, now_us, identity, current=build_id)


def set_ramping(
    deployment: Deployment,
    build_id: str,
    ramp_share: int,
    now_us: int,
    identity: str,
    *,
    ignore_missing_queues: bool = False,
    allow_no_pollers: bool = False,
) -> Deployment:
    """`build_id` "": the ramp ends, and all goes to the current version."""
    if not 0 <= ramp_share <= WHOLE:
        raise invalid("percentage", "must be between 0 and 100")
    if not build_id:
        if ramp_share:
            raise invalid("build_id", "is not set, and a share goes to a version")
        return _routed(deployment, deployment, now_us, identity, ramping="", ramp_share=0)
    if build_id == deployment.current:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "VERSION_IS_CURRENT",
            f"version {version_name(deployment.name, build_id)!r} is the current one already",
            field="build_id",
        )
    found = _ready_for_runs(deployment, build_id, now_us, ignore_missing_queues, allow_no_pollers)
    return _routed(deployment, found, now_us, identity, ramping=build_id, ramp_share=ramp_share)


def retirable_us(build: Build, last_close_us: int, grace_us: int) -> int:
    """When nothing can need the version any more: so long after its last run and its last chance of one."""
    return (
        max(build.stopped_us, last_close_us) + grace_us if build.stopped_us or last_close_us else 0
    )


def retire(
    deployment: Deployment,
    build_id: str,
    now_us: int,
    *,
    pinned_runs: int,
    last_close_us: int,
    grace_us: int,
) -> Deployment:
    """Retiring it twice is fine."""
    build = deployment.require(build_id)
    version = version_name(deployment.name, build_id)
    if build.retired_us:
        return deployment
    if build_id in (deployment.current, deployment.ramping):
        how = "current" if build_id == deployment.current else "ramping"
        raise _in_use(f"version {version!r} is the {how} one: it still gets new runs")
    if pinned_runs:
        raise in_use(deployment.name, build_id, pinned_runs)
    allowed_us = retirable_us(build, last_close_us, grace_us)
    if now_us < allowed_us:
        wait_s = -((now_us - allowed_us) // 1_000_000)
        raise _in_use(
            f"version {version!r} has no open runs, and may be retired in {wait_s} s: only "
            f"{grace_us // 1_000_000} s after its last run closed and it got new ones last",
            retirable_time_us=str(allowed_us),
        )
    others = tuple(one for one in deployment.builds if one.build_id != build_id)
    return _with(deployment, others, msgspec.structs.replace(build, retired_us=now_us))


def unretire(deployment: Deployment, build_id: str) -> Deployment:
    build = deployment.require(build_id)
    others = tuple(one for one in deployment.builds if one.build_id != build_id)
    return _with(deployment, others, msgspec.structs.replace(build, retired_us=0))


def require_not_retired(deployment: Deployment, build_id: str) -> None:
    build = deployment.build(build_id)
    if build is not None and build.retired_us:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "VERSION_RETIRED",
            f"version {version_name(deployment.name, build_id)!r} is retired: its workers get no more "
            "tasks. Deploy them under a new build id",
            field="build_id",
        )


def _ready_for_runs(
    deployment: Deployment,
    build_id: str,
    now_us: int,
    ignore_missing_queues: bool,
    allow_no_pollers: bool,
) -> Deployment:
    """The deployment with the build in it, which is fit to get runs."""
    if not build_id:
        return deployment
    require_not_retired(deployment, build_id)
    if deployment.build(build_id) is None and allow_no_pollers:
        deployment = register(deployment, build_id, None, now_us)
        ignore_missing_queues = True
    build = deployment.require(build_id)
    current = deployment.build(deployment.current)
    if current is not None and not ignore_missing_queues:
        missing = sorted(set(current.queues) - set(build.queues))
        if missing:
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "TASK_QUEUES_MISSING",
                f"no worker of version {version_name(deployment.name, build_id)!r} polls "
                f"{', '.join(missing[:5])}, which the current version does",
                field="build_id",
            )
    return deployment


def _routed(
    before: Deployment, found: Deployment, now_us: int, identity: str, **changes: object
) -> Deployment:
    """Which builds get runs has changed: those that do not any more stop now, others have not stopped."""
    after = msgspec.structs.replace(found, changed_by=identity, changed_us=now_us, **changes)
    got = {before.current, before.ramping}
    gets = {after.current, after.ramping}

    def now(build: Build) -> Build:
        if build.build_id in gets:
            return msgspec.structs.replace(build, stopped_us=0)
        if build.build_id in got:
            return msgspec.structs.replace(build, stopped_us=now_us)
        return build

    return msgspec.structs.replace(after, builds=tuple(now(build) for build in after.builds))


def _with(deployment: Deployment, others: tuple[Build, ...], build: Build) -> Deployment:
    builds = sorted((*others, build), key=lambda one: (one.created_us, one.build_id))
    return msgspec.structs.replace(deployment, builds=tuple(builds))


def _with_room(deployment: Deployment) -> tuple[Build, ...]:
    """For one build more. The one retired longest ago is forgotten when there are too many."""
    builds = deployment.builds
    if len(builds) < limits.VERSIONS_OF_DEPLOYMENT_MAX:
        return builds
    retired = [build for build in builds if build.retired_us]
    if not retired:
        raise _too_many("versions of a deployment", limits.VERSIONS_OF_DEPLOYMENT_MAX)
    oldest = min(retired, key=lambda build: build.retired_us)
    return tuple(build for build in builds if build is not oldest)


def _too_many(what: str, most: int) -> Rejected:
    return Rejected(
        Code.RESOURCE_EXHAUSTED, "TOO_MANY_VERSIONS", f"there may be {most} {what}, and are"
    )


def in_use(name: str, build_id: str, pinned_runs: int) -> Rejected:
    runs = f"{pinned_runs} open run{'s are' if pinned_runs > 1 else ' is'}"
    return _in_use(
        f"{runs} pinned to version {version_name(name, build_id)!r}", open_runs=str(pinned_runs)
    )


def _in_use(message: str, **metadata: str) -> Rejected:
    return Rejected(
        Code.FAILED_PRECONDITION,
        "VERSION_IN_USE",
        message,
        field="build_id",
        metadata=metadata,
    )

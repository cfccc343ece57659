"""Versions of workers: how they are named, and what a run does when another becomes current."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self


class VersioningBehavior(IntEnum):
    """What becomes of a run when another version of its workers becomes current."""

    UNSPECIFIED = 0
    PINNED = 1
    """It ends on the version on which it began."""
    AUTO_UPGRADE = 2
    """It goes on on the current version: its code must replay what older ones have done."""


@dataclass(frozen=True, slots=True)
class WorkerDeploymentVersion:
    """One build of a deployment: a program whose workers are rolled out together."""

    deployment_name: str
    build_id: str

    def __post_init__(self) -> None:
        if not self.deployment_name or not self.build_id:
            raise ValueError("a version has a deployment name and a build id")
        if "." in self.deployment_name:
            raise ValueError("a deployment name has no dot: it parts the name from the build id")

    def to_canonical_string(self) -> str:
        return f"{self.deployment_name}.{self.build_id}"

    @classmethod
    def from_canonical_string(cls, canonical: str) -> Self:
        """Raises ValueError for a text without a dot, or with nothing on one side of it."""
        deployment_name, _, build_id = canonical.partition(".")
        return cls(deployment_name, build_id)


@dataclass(frozen=True, slots=True)
class WorkerDeploymentConfig:
    """Which version a worker is of.

    Without `use_worker_versioning` it takes the tasks that go to no version, and its build id is
    only written down. With it each workflow must say its `versioning_behavior`, unless there is a
    default for those that do not.
    """

    version: WorkerDeploymentVersion
    use_worker_versioning: bool
    default_versioning_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED


class VersioningOverride:
    """Instead of what a workflow's code says, for one run: one of the two below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PinnedVersioningOverride(VersioningOverride):
    """The run stays on this version, which must be known and not retired."""

    version: WorkerDeploymentVersion


@dataclass(frozen=True, slots=True)
class AutoUpgradeVersioningOverride(VersioningOverride):
    """The run follows the current version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowVersioningInfo:
    """Of a run: its behaviour as it counts, and the version that ran it last, or to which it is
    pinned."""

    behavior: VersioningBehavior
    deployment_version: WorkerDeploymentVersion | None

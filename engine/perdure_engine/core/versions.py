"""Versions of worker code: a build of a deployment, and what a run has to do with one.

A version is named `deployment.build_id`; a deployment's name holds no dot, so the text can be read
back. "" stands for workers that name no version.
"""

from __future__ import annotations

import enum

import msgspec


class Behavior(enum.IntEnum):
    """What becomes of a run when the current version of its queue changes. The numbers are Temporal's."""

    UNSPECIFIED = 0
    PINNED = 1  # it stays where it began
    AUTO_UPGRADE = 2  # its next workflow task goes to the current version


class Versioning(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of a run: where its last workflow task ran; or an override of it, which names a version if PINNED."""

    behavior: Behavior
    deployment_name: str = ""
    build_id: str = ""

    @property
    def version(self) -> str:
        return version_name(self.deployment_name, self.build_id)


def version_name(deployment_name: str, build_id: str) -> str:
    return f"{deployment_name}.{build_id}" if deployment_name else ""


def split_version(version: str) -> tuple[str, str]:
    """Deployment name and build id."""
    deployment_name, _, build_id = version.partition(".")
    return deployment_name, build_id


def bucket(queue: str, pinned: str, pool: str = "") -> str:
    """What a queue's number is made of: tasks pinned to a version, and those of another pool than the normal one, are
    paged apart from all others, so that a version or a pool without workers holds nobody up. No queue's name has a
    control character."""
    if pool:
        return f"{queue}\0{pinned}\0{pool}"
    return f"{queue}\0{pinned}" if pinned else queue

"""Whether a workflow id may be used again."""

from __future__ import annotations

import enum


class IdReusePolicy(enum.IntEnum):
    ALLOW_DUPLICATE = 1
    ALLOW_DUPLICATE_FAILED_ONLY = 2
    REJECT_DUPLICATE = 3

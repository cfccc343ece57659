"""The states of a run."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    RUNNING = 1
    COMPLETED = 2
    FAILED = 3
    CANCELED = 4
    TERMINATED = 5
    CONTINUED_AS_NEW = 6
    TIMED_OUT = 7
    PAUSED = 8  # open, and held back by an operator

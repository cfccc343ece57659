"""What is thrown through workflow code from outside; no `except Exception` of the user's stops it.

Neither is an error of anybody's: they are the two ways in which a worker takes control back.
"""

from __future__ import annotations


class WorkflowEvicted(BaseException):
    """The run leaves memory: whatever its code still asks for is not done."""


class DeadlockDetected(BaseException):
    """The code did not give control back. Raised into the thread by whoever watches it."""

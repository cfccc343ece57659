"""What is thrown through workflow code; no `except Exception` of the user's stops it.

The first two are how a worker takes control back; the third is how the code itself ends its run.
"""

from __future__ import annotations

from perdure._replay.messages import ContinueAsNew
from perdure.common import TypedSearchAttributes


class WorkflowEvicted(BaseException):
    """The run leaves memory: whatever its code still asks for is not done."""


class DeadlockDetected(BaseException):
    """The code did not give control back. Raised into the thread by whoever watches it."""


class ContinueAsNewError(BaseException):
    """Raised by `workflow.continue_as_new`, and by nothing else: let it leave the workflow."""

    def __init__(
        self, command: ContinueAsNew, search_attributes: TypedSearchAttributes | None = None
    ) -> None:
        super().__init__("continue as new")
        self.command = command
        self.search_attributes = search_attributes  # of the next run; None: as they are

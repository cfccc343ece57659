"""What a worker asks its interceptors for."""

from __future__ import annotations

from perdure._interceptors.activity import ActivityInboundInterceptor
from perdure._interceptors.workflow import (
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)


class Interceptor:
    """Of a worker; override what is of interest. One that is a `perdure.client.Interceptor` too is
    given to the client only: every worker of that client takes it from there."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called for every attempt: what is to run instead of `next`."""
        return next

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Asked once by each worker. The class is made for every run that comes into memory, with
        the next interceptor as its only argument; None: workflows pass."""
        return None

"""Traces and metrics of workflows and activities with OpenTelemetry: `pip install perdure[opentelemetry]`.

    client = await Client.connect(interceptors=[TracingInterceptor()])
    worker = Worker(client, …)    # has it from its client

A trace goes from the client's call through the workflow to its activities, in whatever processes
they run; its context travels in headers, and so is part of the history.

Spans of workflows are made by workflow time and handed to the SDK when the engine has taken the
workflow task that ended them: replay makes none, a workflow task that came to nothing makes none,
and no worker's death makes one twice (it can cost one). Their ids are functions of the history, so
that a worker that takes a run over hangs what it does under the spans of the one before.

Spans of workflows are made on the worker's event loop, so give the provider a processor that exports
beside it (`BatchSpanProcessor`). Activities in other processes have their span here; what they
trace there is theirs to connect.

What is run more than a minute after it was asked for begins a trace of its own, with a link to the
span that asked: a trace must not last as long as a workflow may.

    client = await Client.connect(plugins=[MetricsPlugin()])    # and its workers are measured
"""

from perdure.contrib.opentelemetry import workflow
from perdure.contrib.opentelemetry._carrier import default_text_map_propagator
from perdure.contrib.opentelemetry._interceptor import TracingInterceptor
from perdure.contrib.opentelemetry._metrics import MetricsPlugin
from perdure.contrib.opentelemetry._workflows import TracingWorkflowInboundInterceptor

__all__ = [
    "MetricsPlugin",
    "TracingInterceptor",
    "TracingWorkflowInboundInterceptor",
    "default_text_map_propagator",
    "workflow",
]

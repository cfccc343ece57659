"""Spans for workflow code, safe on replay."""

from __future__ import annotations

from opentelemetry.util.types import Attributes

from perdure.contrib.opentelemetry._workflows import tracing_of

__all__ = ["completed_span"]


def completed_span(
    name: str, *, attributes: Attributes = None, exception: BaseException | None = None
) -> None:
    """A span without length, at workflow time, below the one that is current here. On replay, and
    when the run is not traced, it does nothing."""
    tracing = tracing_of()
    if tracing is not None:
        tracing.completed_span(name, attributes, exception)

"""Which version of workers a task goes to, as history asks it whenever it offers one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure_engine.core.tasks import TaskKind


class Routing(Protocol):
    """The deployments of all namespaces, as this node knows them."""

    active: bool
    """Whether there is any deployment: while not, nobody need ask."""

    def version_for(
        self, namespace_id: bytes, queue: str, kind: TaskKind, run_id: bytes, pinned: str
    ) -> str:
        """The version whose polls get the task; "": polls that name none. `pinned`: of the run, or ""."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have the listener called when some answer may be another one from now on."""
        ...


class NoRouting:
    """Of a node without deployments."""

    active = False

    def version_for(
        self, namespace_id: bytes, queue: str, kind: TaskKind, run_id: bytes, pinned: str
    ) -> str:
        return pinned

    def on_change(self, listener: Callable[[], None]) -> None:
        pass

"""Handlers that the code sets while it runs, and what it tells of itself to people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from perdure._definitions import (
    HandlerDefinition,
    HandlerUnfinishedPolicy,
    handler_definition,
    update_handler,
)
from perdure._replay.queries import query_handler
from perdure._replay.run import WorkflowRun, current_run
from perdure._replay.updates import UpdateInfo, current_update

Handler = Callable[..., Any]


def get_signal_handler(name: str) -> Handler | None:
    """That of exactly this name; the dynamic one is another matter."""
    run = current_run()
    return _bound(run, run.signals.handler(name))


def set_signal_handler(name: str, handler: Handler | None) -> None:
    """Signals of that name go to `handler`, first those that came before there was one.

    It takes the place of the class's own; None leaves the name without a handler.
    """
    _set_signal(name, _free(handler, name, "signal"))


def get_dynamic_signal_handler() -> Handler | None:
    run = current_run()
    return _bound(run, run.signals.handler(None))


def set_dynamic_signal_handler(handler: Handler | None) -> None:
    """`handler(name, args)` takes the signals that have no handler of their name, first those that
    wait for one; `args` is a sequence of `RawValue`."""
    _set_signal(None, _free(handler, None, "signal"))


def get_query_handler(name: str) -> Handler | None:
    run = current_run()
    return _bound(run, query_handler(run, name))


def set_query_handler(name: str, handler: Handler | None) -> None:
    """Queries of that name go to `handler`, in the place of the class's own; None: to nobody."""
    _set_query(name, _free(handler, name, "query"))


def get_dynamic_query_handler() -> Handler | None:
    run = current_run()
    return _bound(run, query_handler(run, None))


def set_dynamic_query_handler(handler: Handler | None) -> None:
    """`handler(name, args)` answers the queries that have no handler of their name."""
    _set_query(None, _free(handler, None, "query"))


def get_update_handler(name: str) -> Handler | None:
    """That of exactly this name; the dynamic one is another matter."""
    return _bound_update(name)


def get_dynamic_update_handler() -> Handler | None:
    return _bound_update(None)


def current_update_info() -> UpdateInfo | None:
    """Of the update that the code runs for: in its validator, its handler, and the tasks of that."""
    current_run()
    return current_update.get()


def set_update_handler(
    name: str | None,
    handler: Handler | None,
    *,
    validator: Callable[..., None] | None = None,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
) -> None:
    """From now on updates of that name go to `handler`; with None they are refused.

    The name None is every name that has no handler of its own.
    """
    run = current_run()
    run.check_may_act()
    if handler is None:
        run.updates.add_handler(name, None)
        return
    definition = update_handler(
        handler, name, unfinished_policy, dynamic=name is None, skip_first=False
    )

    def without_self(_: Any, *args: Any) -> Any:
        return handler(*args)

    def validate(_: Any, *args: Any) -> None:
        assert validator is not None
        validator(*args)

    run.updates.add_handler(
        name,
        replace(
            definition,
            function=without_self,
            validator=None if validator is None else validate,
        ),
    )


def set_dynamic_update_handler(
    handler: Handler | None, *, validator: Callable[..., None] | None = None
) -> None:
    """From now on updates that no other handler takes go to this one, which takes a name and a
    `Sequence[RawValue]`."""
    set_update_handler(None, handler, validator=validator)


def get_current_details() -> str:
    return current_run().current_details


def set_current_details(description: str) -> None:
    """What people see of the run at this moment (Markdown, kept in the worker's memory only)."""
    run = current_run()
    run.check_may_act()
    run.current_details = description


def _set_signal(name: str | None, definition: HandlerDefinition | None) -> None:
    run = current_run()
    run.check_may_act()
    run.signals.set_handler(name, definition)


def _set_query(name: str | None, definition: HandlerDefinition | None) -> None:
    run = current_run()
    run.check_may_act()
    if run.added_queries is None:
        run.added_queries = {}
    run.added_queries[name] = definition


def _free(handler: Handler | None, name: str | None, kind: str) -> HandlerDefinition | None:
    if handler is None:
        return None
    definition = handler_definition(handler, name, kind, free=True, dynamic=name is None)
    if kind == "query" and definition.is_async:
        raise TypeError("a query handler must not be async")
    return definition


def _bound_update(name: str | None) -> Handler | None:
    run = current_run()
    definition = run.updates.handler(name)
    return None if definition is None else partial(definition.function, run.workflow)


def _bound(run: WorkflowRun, definition: HandlerDefinition | None) -> Handler | None:
    return None if definition is None else definition.bound_to(run.workflow)

"""Virtual objects: a class whose attributes are kept for each key, with one handler at a time.

    @workflow.entity
    class Cart:
        items: dict[str, int]

        def __init__(self) -> None:
            self.items = {}

        @workflow.entity_handler
        async def add(self, item: str, n: int = 1) -> int: ...

        @workflow.entity_reader
        def total(self) -> int: ...

It is given to workers among their workflows, and used with `client.entity(Cart, key, task_queue=…)`.
The attributes are saved when a handler returns and are as before when it raises; a handler may wait,
for activities and all else that a workflow waits for, and no other of its key runs meanwhile. Readers
see what was saved last. Declare attributes in the class body: by those hints they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from perdure import _definitions
from perdure._definitions import entity_key_of, fresh_key
from perdure._replay.run import current_run
from perdure.workflow._entity_host import EntityHost, make_host

_Class = TypeVar("_Class", bound=type)
_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_Reader = TypeVar("_Reader", bound=Callable[..., Any])

# What a key keeps for ever, and what a worker replays that has lost it, are so many calls at most; a
# turn, which costs as much as two calls, is spread over them.
_CALLS_PER_RUN = 100


@overload
def entity(cls: _Class, /) -> _Class: ...


@overload
def entity(
    *, name: str | None = None, calls_per_run: int = _CALLS_PER_RUN
) -> Callable[[_Class], _Class]: ...


def entity(
    cls: type | None = None, /, *, name: str | None = None, calls_per_run: int = _CALLS_PER_RUN
) -> Any:
    """Makes a class an entity. It must be possible to make one without arguments: a new key is so.

    `name` is its type, the class's name unless given; it must not change while there are keys.
    After `calls_per_run` calls a key's run continues as new, which callers do not see.
    Raises TypeError, with the reason, for a class that cannot be an entity.
    """

    def decorate(decorated: type) -> type:
        _definitions.define_entity(decorated, name, calls_per_run, make_host)
        return decorated

    return decorate if cls is None else decorate(cls)


@overload
def entity_handler(fn: _Handler, /) -> _Handler: ...


@overload
def entity_handler(*, name: str | None = None) -> Callable[[_Handler], _Handler]: ...


def entity_handler(fn: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Marks a method, async or not, that may change the object: one at a time of each key, in the
    order in which the calls came. What it raises is its caller's, and changes nothing."""

    def decorate(decorated: _Handler) -> _Handler:
        return _definitions.mark_entity_handler(decorated, name)

    return decorate if fn is None else decorate(fn)


@overload
def entity_reader(fn: _Reader, /) -> _Reader: ...


@overload
def entity_reader(*, name: str | None = None) -> Callable[[_Reader], _Reader]: ...


def entity_reader(fn: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Marks a plain method that answers from what was saved last, beside a handler that runs. It has
    an object of its own: what it changes is gone."""

    def decorate(decorated: _Reader) -> _Reader:
        return _definitions.mark_entity_reader(decorated, name)

    return decorate if fn is None else decorate(fn)


def entity_key() -> str:
    """Of the object that the code runs for. RuntimeError outside of an entity's code."""
    key = fresh_key.get()
    if key is not None:
        return key
    run = current_run()
    if not isinstance(run.workflow, EntityHost):
        raise RuntimeError("not in the code of an entity")
    assert run.started is not None
    return entity_key_of(run.started.workflow_id, run.workflow.entity.name)

"""The decorators. What they decorate stays what it was, and can be called in plain tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from perdure import _definitions
from perdure._definitions import DynamicWorkflowConfig, HandlerUnfinishedPolicy
from perdure.common import VersioningBehavior

_Class = TypeVar("_Class", bound=type)
_Run = TypeVar("_Run", bound=Callable[..., Awaitable[Any]])
_Init = TypeVar("_Init", bound=Callable[..., None])
_Signal = TypeVar("_Signal", bound=Callable[..., "Awaitable[None] | None"])
_Query = TypeVar("_Query", bound=Callable[..., Any])
_S = TypeVar("_S")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class UpdateMethodMultiParam(Protocol[_P, _R_co]):
    """What `@workflow.update` makes of a method: it can be called as before, and has a decorator
    for its validator."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_R_co] | _R_co: ...

    def validator(self, fn: Callable[_P, None], /) -> Callable[_P, None]:
        """Marks a plain method with the same parameters. It refuses an update by raising, and must
        change nothing; then nothing of the update remains."""
        ...


@overload
def defn(cls: _Class, /) -> _Class: ...


@overload
def defn(
    *,
    name: str | None = None,
    dynamic: bool = False,
    failure_exception_types: Sequence[type[BaseException]] = (),
    versioning_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED,
    sandboxed: bool = True,
) -> Callable[[_Class], _Class]: ...


def defn(
    cls: type | None = None,
    /,
    *,
    name: str | None = None,
    dynamic: bool = False,
    failure_exception_types: Sequence[type[BaseException]] = (),
    versioning_behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED,
    sandboxed: bool = True,
) -> Any:
    """Makes a class a workflow; its type is the class's name unless `name` says otherwise.

    A `dynamic` one, at most one a worker, is run for all types that the worker does not know; it
    takes one `Sequence[RawValue]`, and `info().workflow_type` is what was asked for.
    `failure_exception_types` are exceptions that fail the run although they are of a kind that
    only fails the workflow task and has it retried (NondeterminismError, PayloadDecodeError, …).
    `versioning_behavior` says what becomes of its runs when another version of the worker becomes
    current; workers with a version need it, of the workflow or by default.
    `sandboxed` False switches the guard off, which keeps its code from clocks, files and the like.
    Raises TypeError, with the reason, for a class that cannot be a workflow.
    """

    def decorate(decorated: type) -> type:
        _definitions.define_workflow(
            decorated,
            name,
            failure_exception_types,
            dynamic=dynamic,
            versioning_behavior=versioning_behavior,
            guarded=sandboxed,
        )
        return decorated

    return decorate if cls is None else decorate(cls)


def run(fn: _Run, /) -> _Run:
    """Marks the async method that is the workflow: when it ends, the run has ended."""
    return _definitions.mark_run(fn)


def init(fn: _Init, /) -> _Init:
    """Marks an `__init__` that takes the same arguments as the run method."""
    return _definitions.mark_init(fn)


def dynamic_config(
    fn: Callable[[_S], DynamicWorkflowConfig], /
) -> Callable[[_S], DynamicWorkflowConfig]:
    """Marks a plain method of a dynamic workflow that says, for the workflow type of each run, what
    `defn` says for all. It is called once, after `__init__`; `info()` may be asked."""
    return _definitions.mark_dynamic_config(fn)


@overload
def signal(fn: _Signal, /) -> _Signal: ...


@overload
def signal(
    *,
    name: str | None = None,
    dynamic: bool = False,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
    description: str | None = None,
) -> Callable[[_Signal], _Signal]: ...


def signal(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    dynamic: bool = False,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
    description: str | None = None,
) -> Any:
    """Marks a method, async or not, that is called for each signal of its name, in order.

    A `dynamic` one takes the name and a `Sequence[RawValue]`, for all names without a handler.
    `unfinished_policy` says whether a run that ends while it runs warns of that.
    """

    def decorate(decorated: _Signal) -> _Signal:
        return _definitions.mark_signal(
            decorated,
            name,
            dynamic=dynamic,
            unfinished_policy=unfinished_policy,
            description=description,
        )

    return decorate if fn is None else decorate(fn)


@overload
def query(fn: _Query, /) -> _Query: ...


@overload
def query(
    *, name: str | None = None, dynamic: bool = False, description: str | None = None
) -> Callable[[_Query], _Query]: ...


def query(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    dynamic: bool = False,
    description: str | None = None,
) -> Any:
    """Marks a plain method that answers from the workflow's state and changes nothing.

    A `dynamic` one takes the name and a `Sequence[RawValue]`, for all names without a handler.
    """

    def decorate(decorated: _Query) -> _Query:
        return _definitions.mark_query(decorated, name, dynamic=dynamic, description=description)

    return decorate if fn is None else decorate(fn)


@overload
def update(fn: Callable[_P, Awaitable[_R]], /) -> UpdateMethodMultiParam[_P, _R]: ...


@overload
def update(fn: Callable[_P, _R], /) -> UpdateMethodMultiParam[_P, _R]: ...


@overload
def update(
    *,
    name: str | None = None,
    dynamic: bool = False,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
    description: str | None = None,
) -> _UpdateDecorator: ...


def update(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    dynamic: bool = False,
    unfinished_policy: HandlerUnfinishedPolicy = HandlerUnfinishedPolicy.WARN_AND_ABANDON,
    description: str | None = None,
) -> Any:
    """Marks a method, async or not, that changes the workflow and answers its caller.

    It may wait, for activities too. Its validator (`@the_method.validator`) looks first. What it
    raises fails the update, not the run. A dynamic one takes the name and a `Sequence[RawValue]`,
    for every name that no other takes.
    """

    def decorate(decorated: Callable[..., Any]) -> Callable[..., Any]:
        return _definitions.mark_update(
            decorated, name, unfinished_policy, description, dynamic=dynamic
        )

    return decorate if fn is None else decorate(fn)


class _UpdateDecorator(Protocol):
    @overload
    def __call__(self, fn: Callable[_P, Awaitable[_R]], /) -> UpdateMethodMultiParam[_P, _R]: ...

    @overload
    def __call__(self, fn: Callable[_P, _R], /) -> UpdateMethodMultiParam[_P, _R]: ...

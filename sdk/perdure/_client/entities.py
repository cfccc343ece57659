"""A key of an entity as its client holds it.

A call is an update that begins the key's run when there is none; a reader is a query. What a run that
continues as new says of calls that it has not come to, "ask the next one", is done here, with the same
id: nobody hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary, WeakValueDictionary

from perdure._client.core import ClientCore
from perdure._client.handle import WorkflowHandle
from perdure._client.interceptors import UpdateWithStartUpdateWorkflowInput
from perdure._client.options import build_start
from perdure._client.updates import WorkflowUpdateHandle, send_update
from perdure._definitions import (
    EntityDefinition,
    EntityMethod,
    Head,
    entity_definition,
    entity_handler_of,
    entity_reader_of,
    entity_workflow_id,
    fresh_key,
    fresh_object,
    head_to_payload,
)
from perdure._failure_info import ApplicationInfo
from perdure._wire.calls import NO_HEADER, Start, Target
from perdure._wire.updates import UpdateAnswer, UpdateRequest, WorkflowUpdateStage
from perdure.common import (
    ENTITY_CALL_PREFIX,
    ENTITY_DESTROY,
    ENTITY_MOVED,
    ENTITY_TELL_BYTES_MAX,
    RawValue,
    WorkflowIdConflictPolicy,
)
from perdure.errors import (
    RPCError,
    WorkflowQueryFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)

S = TypeVar("S")
R = TypeVar("R")
P = ParamSpec("P")

# The engine's words.
_FULL = ("TOO_MANY_UPDATES_IN_FLIGHT", "TOO_MANY_UPDATES")
_ID_REUSED = ("UPDATE_ID_REUSED", "REQUEST_ID_REUSED")
_NO_WORKFLOW = "WORKFLOW_NOT_FOUND"
# A run has ten updates in flight at most. Of one client fewer ask at a time, in order, and leave room
# for other clients; who is turned away all the same comes back soon, as a handler may be quick.
_CALLS_AT_ONCE = 8
_FIRST_DELAY_S = 0.02
_DELAY_S_MAX = 0.5
_DOUBLINGS_MAX = 5

_gates: WeakKeyDictionary[ClientCore, WeakValueDictionary[str, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)


class EntityHandle(Generic[S]):
    """A key of the entity S; made by `Client.entity`. Making one asks nobody.

    Its run is the workflow `workflow_id`, for describing it or reading its history.
    """

    def __init__(
        self,
        core: ClientCore,
        name: str,
        key: str,
        task_queue: str,
        entity: EntityDefinition | None,
        *,
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> None:
        self._core = core
        self._name = name
        self._key = key
        self._task_queue = task_queue
        self._entity = entity
        self._id = id
        self._rpc_timeout = rpc_timeout
        self._workflow_id = entity_workflow_id(name, key)

    @property
    def key(self) -> str:
        return self._key

    @property
    def workflow_id(self) -> str:
        return self._workflow_id

    def with_options(
        self, *, id: str | None = None, rpc_timeout: timedelta | None = None
    ) -> EntityHandle[S]:
        """The same key, for calls that are to have this id, or not to take longer than that.

        A call is done once for an id: who repeats it within a day, from wherever, gets what the first
        one came to. So an id is for one call; without one each call has its own.
        """
        return EntityHandle(
            self._core,
            self._name,
            self._key,
            self._task_queue,
            self._entity,
            id=id,
            rpc_timeout=rpc_timeout,
        )

    @overload
    async def call(
        self,
        handler: Callable[Concatenate[S, P], Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...

    @overload
    async def call(
        self, handler: Callable[Concatenate[S, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def call(self, handler: str, /, *args: Any, **kwargs: Any) -> Any: ...

    async def call(self, handler: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What the handler returns, when its turn has come and it has ended; the change is saved.

        Raises WorkflowUpdateFailedError, whose cause says why, when it raised: nothing has changed.
        Waits without limit unless `with_options(rpc_timeout=…)` sets one: then
        WorkflowUpdateRPCTimeoutOrCancelledError, and the call goes on.
        """
        method = self._method(handler, "handler")
        name, given = _request(method, handler, args, kwargs)
        hint = Any if method is None else method.signature.result
        gate = self._gate()

        async def ask() -> Any:
            async with gate:
                return await self._settled(self._start(), name, given, hint)

        return await self._in_time(ask())

    @overload
    async def tell(
        self, handler: Callable[Concatenate[S, P], Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None: ...

    @overload
    async def tell(self, handler: str, /, *args: Any, **kwargs: Any) -> None: ...

    async def tell(self, handler: Any, /, *args: Any, **kwargs: Any) -> None:
        """Returns when the call is saved, whether a worker runs or not. Nobody hears what it comes to.

        Raises ValueError for arguments over 32 KiB.
        """
        name, given = _request(self._method(handler, "handler"), handler, args, kwargs)
        payloads = self._core.converter.to_payloads(given)
        size_bytes = sum(len(one.data) for one in payloads)
        if size_bytes > ENTITY_TELL_BYTES_MAX:
            raise ValueError(
                f"the arguments have {size_bytes} bytes and those of a tell at most "
                f"{ENTITY_TELL_BYTES_MAX}: call the handler instead"
            )
        request = UpdateRequest(self._call_id(), name, payloads)
        await self._in_time(self._admitted(request))

    @overload
    async def read(
        self, reader: Callable[Concatenate[S, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def read(self, reader: str, /, *args: Any, **kwargs: Any) -> Any: ...

    async def read(self, reader: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What the reader returns of the state that was saved last, with every call that was answered
        before; it waits for no handler. Of a key that does not exist: of a fresh object, made here.

        Raises WorkflowQueryFailedError when it raised, RPCError FAILED_PRECONDITION when no worker
        polls the queue.
        """
        method = self._method(reader, "reader")
        name, given = _request(method, reader, args, kwargs)
        hint = Any if method is None else method.signature.result
        run: WorkflowHandle[Any, Any] = WorkflowHandle(self._core, self._workflow_id)
        try:
            return await run.query(
                name, args=given, result_type=hint, rpc_timeout=self._rpc_timeout
            )
        except RPCError as error:
            if error.reason != _NO_WORKFLOW or method is None or self._entity is None:
                raise
        return self._read_fresh(self._entity, method, given)

    async def destroy(self) -> None:
        """In its turn like a call: then the key is as if it had never been used. That it does not
        exist is no error."""
        target = Target(self._core.namespace, self._workflow_id, "")
        try:
            await self._in_time(self._settled(target, ENTITY_DESTROY, (), Any))
        except RPCError as error:
            if error.reason != _NO_WORKFLOW:
                raise

    # --- asking -----------------------------------------------------------------------------------

    async def _settled(self, to: Start | Target, name: str, args: Sequence[Any], hint: Any) -> Any:
        call_id = self._call_id()
        asked = UpdateWithStartUpdateWorkflowInput(
            update_id=call_id,
            update=name,
            args=args,
            wait_for_stage=WorkflowUpdateStage.COMPLETED,
            headers=NO_HEADER,
            ret_type=hint,
            rpc_timeout=None,
        )
        attempt = 0
        while True:
            try:
                handle: WorkflowUpdateHandle[Any] = await send_update(self._core, to, asked)
            except RPCError as error:
                if not self._is_there(error):
                    attempt += 1
                    await self._pause(error, attempt)
                    continue
                handle = WorkflowUpdateHandle(
                    self._core, call_id, self._workflow_id, result_type=hint
                )
            if not _moved(await handle.outcome(None)):
                return await handle.result()

    async def _admitted(self, request: UpdateRequest) -> None:
        start = self._start()
        stage = WorkflowUpdateStage.ADMITTED
        service = self._core.update_service
        attempt = 0
        while True:
            try:
                await self._core.unary(
                    lambda timeout_s: service.update_with_start(
                        start, request, stage, 1, timeout_s
                    ),
                    None,
                )
            except RPCError as error:
                if self._is_there(error):
                    return
                attempt += 1
                await self._pause(error, attempt)
            else:
                return

    def _is_there(self, error: RPCError) -> bool:
        """The id is known with other bytes, which is what encryption makes of the same arguments."""
        return error.reason in _ID_REUSED and not self._core.edge.is_plain

    async def _pause(self, error: RPCError, attempt: int) -> None:
        """Until it is worth while to ask again. Raises `error` when it never is."""
        if error.reason not in _FULL:
            raise error
        surroundings = self._core.surroundings
        whole_s = min(_DELAY_S_MAX, _FIRST_DELAY_S * 2 ** min(attempt - 1, _DOUBLINGS_MAX))
        await surroundings.sleep(whole_s * (0.5 + 0.5 * surroundings.random()))

    async def _in_time(self, asked: Awaitable[R]) -> R:
        if self._rpc_timeout is None:
            return await asked
        limit = asyncio.timeout(self._rpc_timeout.total_seconds())
        try:
            async with limit:
                return await asked
        except TimeoutError:
            if not limit.expired():
                raise
            raise WorkflowUpdateRPCTimeoutOrCancelledError from None

    def _start(self) -> Start:
        core, entity = self._core, self._entity
        return build_start(
            {
                "id": self._workflow_id,
                "task_queue": self._task_queue,
                "id_conflict_policy": WorkflowIdConflictPolicy.USE_EXISTING,
            },
            workflow_type=self._name,
            args=() if entity is None else [_new_key(entity)],
            namespace=core.namespace,
            identity=core.identity,
            request_id=core.surroundings.new_uuid(),
            converter=core.converter,
        )

    def _call_id(self) -> str:
        return self._id or ENTITY_CALL_PREFIX + self._core.surroundings.new_uuid()

    def _gate(self) -> asyncio.Semaphore:
        """Lives as long as somebody waits at it."""
        gates = _gates.setdefault(self._core, WeakValueDictionary())
        gate = gates.get(self._workflow_id)
        if gate is None:
            gate = gates[self._workflow_id] = asyncio.Semaphore(_CALLS_AT_ONCE)
        return gate

    # --- methods ----------------------------------------------------------------------------------

    def _method(self, method: Any, kind: str) -> EntityMethod | None:
        """None: only its name is known. Raises TypeError for one that is not this entity's."""
        entity = self._entity
        if isinstance(method, str):
            if entity is None:
                return None
            name = method
        else:
            of = entity_handler_of if kind == "handler" else entity_reader_of
            name = of(method).name
            if entity is None:
                return of(method)
        known = entity.handlers if kind == "handler" else entity.readers
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise TypeError(f"entity {entity.name!r} has no {kind} {name!r}; known: {listed}")
        return known[name]

    def _read_fresh(
        self, entity: EntityDefinition, reader: EntityMethod, args: Sequence[Any]
    ) -> Any:
        """As a worker would of a new key: what travels has passed the converter."""
        converter = self._core.converter
        given = reader.signature.decode(converter.to_payloads(args), converter)
        token = fresh_key.set(self._key)
        try:
            value = reader.function(fresh_object(entity), *given)
        except Exception as error:
            raise WorkflowQueryFailedError(str(error)) from error
        finally:
            fresh_key.reset(token)
        return converter.from_payload(converter.to_payload(value), reader.signature.result)


def _request(
    method: EntityMethod | None, name: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[str, Sequence[Any]]:
    if method is not None:
        return method.name, method.positional(args, kwargs)
    if kwargs:
        raise TypeError(f"arguments of {name!r} travel by position: its class is not known here")
    return name, args


def _new_key(entity: EntityDefinition) -> RawValue:
    return RawValue(head_to_payload(Head(calls_per_run=entity.calls_per_run)))


def _moved(answer: UpdateAnswer) -> bool:
    info = None if answer.failure is None else answer.failure.info
    return isinstance(info, ApplicationInfo) and info.type == ENTITY_MOVED


class ClientEntities:
    """The part of `Client` that is about entities."""

    _core: ClientCore

    @overload
    def entity(self, entity: type[S], key: str, *, task_queue: str) -> EntityHandle[S]: ...

    @overload
    def entity(self, entity: str, key: str, *, task_queue: str) -> EntityHandle[Any]: ...

    def entity(self, entity: Any, key: str, *, task_queue: str) -> EntityHandle[Any]:
        """The object of that key, which begins to exist with its first call. Asks nobody.

        `entity` is its class, or its name where the class is not at hand. `task_queue` is that of the
        workers that have it, for when the key's run begins.
        """
        if isinstance(entity, str):
            return EntityHandle(self._core, entity, key, task_queue, None)
        definition = entity_definition(entity)
        return EntityHandle(self._core, definition.name, key, task_queue, definition)

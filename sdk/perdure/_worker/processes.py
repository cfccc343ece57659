"""Sync activities in a pool of processes.

The pool carries the call and its result. Besides, each call has a connection from its process to
the worker while it runs: heartbeats and checkpoints go up, requests to stop come down. Only processes
of the worker's own pool know the key of that connection, so what they send may be pickled.

Failures come back as data, because not every exception survives pickling, and one that does not
would break the pool.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple

from perdure import activity
from perdure._definitions import ActivityDefinition
from perdure._failure_info import FailureInfo
from perdure._failures import exception_to_failure, failure_to_exception
from perdure._worker.attempt import Attempt
from perdure._worker.exits import is_of_the_process
from perdure.converter import PayloadConverter
from perdure.errors import AttemptLostError, PerdureError

logger = logging.getLogger(__name__)

_KEY_BYTES = 32


def check_picklable(definitions: Iterable[ActivityDefinition], converter: PayloadConverter) -> None:
    """Raises TypeError for what cannot go to another process."""
    needed = [one.function for one in definitions if not one.is_async]
    for thing in (*needed, converter):
        try:
            pickle.dumps(thing)
        except Exception as error:
            raise TypeError(
                f"with processes as executor {thing!r} must be picklable: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class _Call:
    number: int
    address: Any
    key: bytes
    function: Callable[..., Any]
    args: Sequence[Any]
    info: activity.Info
    converter: PayloadConverter


class _Told(NamedTuple):
    """Down: what the attempt has been told so far."""

    shutdown: bool
    cancelled: bool
    why: activity.CancellationDetails | None


class _Said(NamedTuple):
    """Up."""

    details: tuple[Any, ...]
    checkpoint: bool


class _Saved(NamedTuple):
    """Down: the answer to a checkpoint. `problem` None: saved."""

    problem: str | None
    lost: bool


class _HandedOver(NamedTuple):
    """The result of a call that ended with `raise_complete_async`."""


# --- the worker's side ----------------------------------------------------------------------------


class Processes:
    """`run` on the event loop; `close` when all calls have ended or were given up."""

    def __init__(self, executor: ProcessPoolExecutor, converter: PayloadConverter) -> None:
        self._executor = executor
        self._converter = converter
        self._key = os.urandom(_KEY_BYTES)
        self._listener = Listener(authkey=self._key)
        self._numbers = itertools.count(1)
        self._attempts: dict[int, Attempt] = {}
        self._closed = False
        self._accepting = threading.Thread(
            target=self._accept, name="perdure-processes", daemon=True
        )
        self._accepting.start()

    async def run(self, attempt: Attempt, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        number = next(self._numbers)
        address = self._listener.address
        info = attempt.context.info
        call = _Call(number, address, self._key, function, args, info, self._converter)
        self._attempts[number] = attempt
        try:
            loop = asyncio.get_running_loop()
            outcome = await loop.run_in_executor(self._executor, run_in_process, call)
        finally:
            del self._attempts[number]
        if isinstance(outcome, FailureInfo):
            raise failure_to_exception(outcome, self._converter)
        if isinstance(outcome, _HandedOver):
            raise activity._CompleteAsyncError  # pyright: ignore[reportPrivateUsage]  # made for us
        return outcome

    def close(self) -> None:
        """Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:  # the only way to wake what waits in accept
            Client(self._listener.address, authkey=self._key).close()
        except (OSError, EOFError):
            logger.debug("the listener of the activity processes had gone already")
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except Exception as error:  # whoever it was did not know the key, or died
                if self._closed:
                    return
                logger.warning("an activity process could not connect: %r", error)
                continue
            if self._closed:
                connection.close()
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="perdure-process", daemon=True
            ).start()

    def _serve(self, connection: Connection) -> None:
        """One call's connection, until its process closes it."""
        with connection:
            try:
                attempt = self._attempts.get(connection.recv())
                if attempt is None:
                    return
                _Line(connection, attempt).serve()
            except (EOFError, OSError):
                return


class _Line:
    """A call's connection with its attempt."""

    def __init__(self, connection: Connection, attempt: Attempt) -> None:
        self._connection = connection
        self._attempt = attempt
        self._context = attempt.context
        self._sending = threading.Lock()

    def serve(self) -> None:
        self._attempt.tell_process = self._tell
        self._tell()  # what it was told before it was connected
        while True:
            said: _Said = self._connection.recv()
            if said.checkpoint:
                self._send(self._checkpoint(said.details))
            else:
                self._attempt.heartbeat(said.details)

    def _tell(self) -> None:
        context = self._context
        told = _Told(context.shutdown.is_set, context.cancel.is_set, context.cancellation)
        try:
            self._send(told)
        except OSError:
            logger.debug("an activity process had ended before it could be told to stop")

    def _checkpoint(self, details: tuple[Any, ...]) -> _Saved:
        try:
            self._attempt.save_progress_sync(details)
        except AttemptLostError:
            return _Saved("", lost=True)
        except Exception as error:
            return _Saved(f"{type(error).__name__}: {error}", lost=False)
        return _Saved(None, lost=False)

    def _send(self, message: _Told | _Saved) -> None:
        with self._sending:
            self._connection.send(message)


# --- the other process ----------------------------------------------------------------------------


def run_in_process(call: _Call) -> Any:
    """The function's result; a FailureInfo when it raised; _HandedOver."""
    with Client(call.address, authkey=call.key) as connection:
        connection.send(call.number)
        up = _Up(connection)
        context = activity._Context(  # pyright: ignore[reportPrivateUsage]  # made for us
            info=lambda: call.info,
            payload_converter=call.converter,
            send_heartbeat=up.heartbeat,
            save_progress_sync=up.checkpoint,
        )
        threading.Thread(target=up.listen, args=(context,), daemon=True).start()
        try:
            return contextvars.copy_context().run(_entered, context, call)
        except activity._CompleteAsyncError:  # pyright: ignore[reportPrivateUsage]  # made for us
            return _HandedOver()
        except BaseException as error:
            if is_of_the_process(error):
                raise
            return exception_to_failure(error, call.converter)


def _entered(context: Any, call: _Call) -> Any:
    activity._enter(context)  # pyright: ignore[reportPrivateUsage]  # made for us
    return call.function(*call.args)


class _Up:
    """A call's connection, from the process that runs it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._saved: queue.SimpleQueue[_Saved] = queue.SimpleQueue()

    def heartbeat(self, details: tuple[Any, ...]) -> None:
        with self._sending:
            self._connection.send(_Said(details, checkpoint=False))

    def checkpoint(self, details: tuple[Any, ...]) -> None:
        with self._sending:
            self._connection.send(_Said(details, checkpoint=True))
            saved = self._saved.get()
        if saved.lost:
            raise AttemptLostError
        if saved.problem is not None:
            raise PerdureError(f"the checkpoint was not saved: {saved.problem}")

    def listen(self, context: Any) -> None:
        """Until the connection ends, with the call or with the worker."""
        try:
            while True:
                message = self._connection.recv()
                if isinstance(message, _Saved):
                    self._saved.put(message)
                    continue
                if message.shutdown and not context.shutdown.is_set:
                    context.begin_shutdown()
                if message.cancelled and not context.cancel.is_set:
                    context.request_cancel(message.why)
        except (EOFError, OSError, TypeError):  # TypeError: closed by the other thread meanwhile
            self._saved.put(_Saved("the worker has gone", lost=False))

"""The end of the pipe in the process that a task has to itself."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from perdure._wire.activity_service import Heard
from perdure._wire.completions import Completion
from perdure._worker.completions import Done as CompletionDone
from perdure._worker.holding import HeldTask, Progress
from perdure._worker.isolation import messages
from perdure._worker.isolation.messages import Down, Up
from perdure._worker.isolation.problems import error_of
from perdure.errors import AttemptLostError, PayloadError, RPCError, RPCStatusCode

ORPHANED = 70
"""Exit code of a process whose worker has gone."""

# Code may report progress in every turn of a loop; a worker that heard each of them would do nothing
# else for its other tasks.
_SAY_PROGRESS_AFTER_S = 0.05


class Line:
    """`say` from any thread; the rest on the event loop. Whoever speaks to a worker that has gone
    ends with it."""

    def __init__(self, connection: Connection, heard: Callable[[Down], None]) -> None:
        """`heard` is called on the event loop."""
        self._connection = connection
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, name="perdure-line", daemon=True).start()

    def say(self, message: Up) -> None:
        data = messages.encode(message)
        try:
            with self._sending:
                self._connection.send_bytes(data)
        except OSError:
            os._exit(ORPHANED)

    def _listen(self) -> None:
        try:
            while True:
                message = messages.decode_down(self._connection.recv_bytes())
                self._loop.call_soon_threadsafe(self._heard, message)
        except (EOFError, OSError):
            os._exit(ORPHANED)
        except RuntimeError:  # the loop is closed: the task is done
            return


class HandsUp:
    """Completions go up the pipe; what the engine has said of them comes back."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._numbers = itertools.count(1)
        self._open: dict[int, CompletionDone] = {}
        self._all_settled = asyncio.Event()
        self._all_settled.set()

    def submit(self, completion: Completion, done: CompletionDone) -> None:
        number = next(self._numbers)
        self._open[number] = done
        self._all_settled.clear()
        # In the next turn: a program that ends cancels all that runs on its loop at once. The task
        # has not failed of that, and by then whoever waits for its end has said so and left.
        handed = messages.Handed(number, completion.to_bytes())
        asyncio.get_running_loop().call_soon(self._line.say, handed)

    def settled(self, message: messages.Settled) -> None:
        done = self._open.pop(message.number, None)
        if done is not None:
            error = None if message.problem is None else error_of(message.problem)
            if error is not None and not isinstance(error, RPCError | PayloadError):
                error = RPCError(str(error), RPCStatusCode.INTERNAL)
            done(error)
        if not self._open:
            self._all_settled.set()

    async def wait_settled(self) -> None:
        await self._all_settled.wait()


class SaysProgress:
    """Heartbeats and checkpoints go up the pipe: stands where a codec stands in a worker."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._numbers = itertools.count(1)
        self._saving: dict[int, asyncio.Future[messages.Saved]] = {}
        self._lock = threading.Lock()
        self._latest: Progress | None = None
        self._said_at_s = 0.0

    def report(self, held: HeldTask, progress: Progress) -> None:
        """From any thread."""
        held.progress = held.unsealed = progress
        self._latest = progress
        if time.monotonic() - self._said_at_s >= _SAY_PROGRESS_AFTER_S:
            self.flush()

    def flush(self) -> None:
        """Says what was said too soon after something else. From any thread."""
        with self._lock:
            latest, self._latest = self._latest, None
            if latest is not None:
                self._said_at_s = time.monotonic()
                self._line.say(messages.Said(latest.details, latest.version))

    async def seal(self, held: HeldTask, progress: Progress) -> Progress:
        held.unsealed = progress
        return progress

    async def save(
        self, token: bytes, details: bytes, version: int, may_go_on: Callable[[], bool]
    ) -> Heard | None:
        """As `ProgressDoor.save`; the worker knows itself whether the attempt may go on."""
        number = next(self._numbers)
        answer = self._saving[number] = asyncio.get_running_loop().create_future()
        self._line.say(messages.Checkpoint(number, details, version))
        try:
            saved = await answer
        finally:
            del self._saving[number]
        if saved.is_lost:
            raise AttemptLostError
        if saved.problem is not None:
            raise error_of(saved.problem)
        return Heard(cancel_requested=saved.cancel_requested, paused=saved.paused, reset=False)

    def saved(self, message: messages.Saved) -> None:
        answer = self._saving.get(message.number)
        if answer is not None and not answer.done():
            answer.set_result(message)

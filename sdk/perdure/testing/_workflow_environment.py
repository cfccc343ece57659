"""An engine for one test, or for all tests of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Self

from perdure.client import Client, Interceptor, Plugin
from perdure.converter import DataConverter
from perdure.testing._engine import Engine, advice, load_engines

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DEFAULT_NAMESPACE = "default"

StartEngine = Callable[[], Awaitable[Engine]]


class _ClientOptions(NamedTuple):
    namespace: str
    data_converter: DataConverter
    identity: str | None
    interceptors: Sequence[Interceptor]
    plugins: Sequence[Plugin]

    async def connect(self, address: str) -> Client:
        """Makes the namespace, should it be another one than that which every engine has."""
        client = await Client.connect(
            address,
            namespace=self.namespace,
            data_converter=self.data_converter,
            identity=self.identity,
            interceptors=self.interceptors,
            plugins=self.plugins,
        )
        if self.namespace != DEFAULT_NAMESPACE:
            try:
                await client.operator.create_namespace(self.namespace)
            except BaseException:
                await client.close()
                raise
        return client


class WorkflowEnvironment:
    """Made by `start_time_skipping`, `start_local` or `from_client`; `shutdown` or `async with` ends it.

    It belongs to the event loop in which it was made, like its client. Any number of them live beside
    each other, in one process and in several: each has an engine, a port and a store of its own.
    """

    def __init__(self, client: Client, engine: Engine | None = None) -> None:
        """For this package; see the three above."""
        self._client = client
        self._engine = engine

    @classmethod
    def from_client(cls, client: Client) -> Self:
        """An environment on an engine that runs anyway, so that one test can be run on both. Time is
        real; shutting it down leaves the client as it is."""
        return cls(client)

    @classmethod
    async def start_time_skipping(
        cls,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        data_converter: DataConverter = DataConverter.default,
        identity: str | None = None,
        interceptors: Sequence[Interceptor] = (),
        plugins: Sequence[Plugin] = (),
    ) -> Self:
        """The whole engine in this process and event loop, on a store in memory, whose time skips.

        Time passes as everywhere, until somebody waits for it: for a result (`handle.result()`,
        `execute_workflow`) or in `env.sleep`. While that lasts and nothing else can happen, no workflow
        task and no activity runs or waits for a worker, time jumps to the next timer: of a workflow,
        of a retry, of a timeout. Activities take real time, and time does not jump while one runs.
        A workflow task that fails is retried in real time.

        Raises RuntimeError that says what to install when the engine is not there.
        """
        engines = load_engines("server")
        options = _ClientOptions(namespace, data_converter, identity, interceptors, plugins)
        return await cls._start(engines.start_time_skipping, "server", options)

    @classmethod
    async def start_local(
        cls,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        data_converter: DataConverter = DataConverter.default,
        identity: str | None = None,
        interceptors: Sequence[Interceptor] = (),
        plugins: Sequence[Plugin] = (),
    ) -> Self:
        """An engine in this process on an embedded PostgreSQL, in a folder that goes with it. Time is
        real. Takes seconds to start: for a session's fixture.

        Raises RuntimeError that says what to install, or why PostgreSQL cannot run here.
        """
        engines = load_engines("dev-server")
        options = _ClientOptions(namespace, data_converter, identity, interceptors, plugins)
        return await cls._start(engines.start_local, "dev-server", options)

    @classmethod
    async def _start(cls, start: StartEngine, extra: str, options: _ClientOptions) -> Self:
        try:
            engine = await start()
        except ModuleNotFoundError as error:
            raise RuntimeError(advice(extra, f"{error.name} is not installed")) from error
        try:
            client = await options.connect(engine.address)
        except BaseException:
            await engine.stop()
            raise
        return cls(client, engine)

    @property
    def client(self) -> Client:
        return self._client

    @property
    def supports_time_skipping(self) -> bool:
        return self._engine is not None and self._engine.skips_time

    async def sleep(self, duration: timedelta | float) -> None:
        """Returns when so much of the engine's time has passed (seconds or timedelta), and workers are
        done with what fell due meanwhile; activities that run on are not waited for.

        Where time skips it takes no longer than that work. Elsewhere it is `asyncio.sleep`.
        """
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        if self._engine is None:
            await asyncio.sleep(seconds)
        else:
            await self._engine.sleep(seconds)

    async def get_current_time(self) -> datetime:
        """The engine's time, in UTC: what `workflow.now()` goes by."""
        if self._engine is None:
            return datetime.now(UTC)
        return _EPOCH + timedelta(microseconds=self._engine.now_us())

    @contextmanager
    def auto_time_skipping_disabled(self) -> Generator[None, None, None]:
        """In the block, waiting for a result makes no time pass, only `sleep` does."""
        if self._engine is None:
            yield
            return
        with self._engine.time_held():
            yield

    async def shutdown(self) -> None:
        """Ends client and engine; nothing is left. Doing it twice is fine."""
        if self._engine is None:
            return
        await self._client.close()
        await self._engine.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

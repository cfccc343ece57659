"""A node in this process whose database sessions are wrapped, with a client and a worker on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import LiteralString
from unittest.mock import patch

import psycopg
from tests.engine_node import running_node

from perdure_engine.ports.metrics import Metrics
from perdure_engine.server import wiring
from perdure_engine.server.node import Node
from perdure_engine.store.sql.connection import Row, Session, Statement
from perdure_engine.store.sql.parameters import Texts
from perdure_engine.store.sql.store import SqlStoreConfig

Wrap = Callable[[Session], Session]


@asynccontextmanager
async def node_with(dsn: str, wrap: Wrap) -> AsyncIterator[Node]:
    class WrappedStore(wiring.MeasuredStore):
        def __init__(self, config: SqlStoreConfig, metrics: Metrics) -> None:
            super().__init__(config, metrics)
            self._wrap = wrap

    with patch.object(wiring, "MeasuredStore", WrappedStore):
        async with running_node(dsn) as node:
            yield node


class Refusing:
    """Makes sessions that refuse every statement with a text parameter that contains the mark."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.sqlstate = ""  # nothing is refused while it is empty
        self.refused = 0

    def wrap(self, session: Session) -> Session:
        return RefusingSession(session, self)

    def meets(self, values: Sequence[object]) -> bool:
        return any(
            self.mark in text
            for value in values
            if isinstance(value, Texts)
            for text in value
            if isinstance(text, str)
        )


class RefusingSession:
    """A Session of a database that has something against one value."""

    def __init__(self, inner: Session, refusing: Refusing) -> None:
        self._inner = inner
        self._refusing = refusing

    @property
    def usable(self) -> bool:
        return self._inner.usable

    def parameter_status(self, name: str) -> str | None:
        return self._inner.parameter_status(name)

    def discard(self) -> None:
        self._inner.discard()

    async def fetch(
        self, text: LiteralString, values: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]:
        refusing = self._refusing
        if refusing.sqlstate and text.startswith("with f as") and refusing.meets(values):
            refusing.refused += 1
            raise psycopg.errors.lookup(refusing.sqlstate)("injected: the marked value")
        return await self._inner.fetch(text, values, prepare=prepare)

    async def fetch_together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return await self._inner.fetch_together(statements)

"""An operation of the API: what it takes, what it does, what it answers. The table of all is `table.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from perdure_engine.core import limits
from perdure_engine.core.ids import request_id_of
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.transport.http.rest.problems import Problem

NAMESPACE_DEFAULT = "default"
IDEMPOTENCY_KEY_BYTES_MAX = limits.NAME_BYTES_MAX
ETAG_PATTERN = r'^(\*|"[0-9]{1,18}")$'

QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of every operation; those of one inherit from it. A parameter without a value is not given."""

    namespace: Annotated[
        str,
        Meta(description="As the header Perdure-Namespace; both must agree. `default` without."),
    ] = ""


class Answer(msgspec.Struct):
    """`body` None: none at all."""

    status: int = 200
    body: msgspec.Struct | None = None
    headers: dict[str, str] = {}


class Call(Generic[QueryT, BodyT]):
    """A request that has been read. `path` has the values of the path's parameters; `idempotency_key` and `if_match`
    are '' without their headers. `problem` tells of an error that is that of a part of the answer only."""

    __slots__ = (
        "body",
        "frontend",
        "idempotency_key",
        "if_match",
        "namespace_id",
        "path",
        "problem",
        "query",
    )

    def __init__(
        self,
        frontend: Frontend,
        namespace_id: bytes,
        path: Mapping[str, str],
        query: QueryT,
        body: BodyT,
        problem: Callable[[BaseException], Problem],
        idempotency_key: str = "",
        if_match: str = "",
    ) -> None:
        self.frontend = frontend
        self.namespace_id = namespace_id
        self.path = path
        self.query = query
        self.body = body
        self.problem = problem
        self.idempotency_key = idempotency_key
        self.if_match = if_match

    def request_id(self) -> bytes:
        """The same for a repeat with the same Idempotency-Key, a fresh one without."""
        if self.idempotency_key:
            return request_id_of(self.namespace_id, self.idempotency_key)
        return self.frontend.ids.new_id()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`answers`: the type of the body by status, None for no body. `body` None: the request has none.
    `example`: such a body, for people.

    `idempotent`: the header Idempotency-Key means something. `conditional`: so does If-Match. `waits`: it may take
    long, and ends when its caller has gone. `names`: see `problems.refused`.
    """

    method: str
    path: str
    name: str
    summary: str
    perform: Callable[[Call[Any, Any]], Awaitable[Answer]]
    answers: Mapping[int, type | None]
    query: type[Query] = Query
    body: Any = None
    body_required: bool = True
    example: Any = None
    idempotent: bool = False
    conditional: bool = False
    waits: bool = False
    names: Mapping[str, str] = {}

    @property
    def tag(self) -> str:
        """What the document groups it under: the first word of its path."""
        return self.path[1:].partition("/")[0].partition(":")[0]

"""What a revision is made of."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alembic import op
from sqlalchemy import Connection, text


class Product(enum.Enum):
    POSTGRESQL = "postgresql"
    COCKROACHDB = "cockroachdb"


@dataclass(frozen=True)
class Step:
    """One statement that can be repeated. `only`: the product it is for, None for both.

    `index`: the name of the index that it makes on a table that has rows already. PostgreSQL would keep all who write
    to the table waiting until that is built, and is told not to; CockroachDB builds every index beside the work.
    """

    sql: str
    only: Product | None = None
    index: str = ""


def run(steps: Iterable[Step], parameters: Mapping[str, object] | None = None) -> None:
    """Execute the steps of the revision that Alembic is in; the connection is in autocommit."""
    connection = op.get_bind()
    product = Product(connection.dialect.name)
    for step in steps:
        if step.only not in (None, product):
            continue
        if step.index and product is Product.POSTGRESQL:
            _build_beside(connection, step)
        else:
            connection.execute(text(step.sql), parameters or {})


# What a build that was killed leaves: an index that is written to and never read.
_IS_UNFINISHED = "select 1 from pg_index where indexrelid = to_regclass(:name) and not indisvalid"


def _build_beside(connection: Connection, step: Step) -> None:
    if connection.execute(text(_IS_UNFINISHED), {"name": step.index}).first() is not None:
        connection.execute(text(f"drop index concurrently if exists {step.index}"))
    beside = step.sql.replace("create index", "create index concurrently", 1)
    connection.execute(text(beside))

"""What a revision is made of."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alembic import op
from sqlalchemy import text


class Product(enum.Enum):
    POSTGRESQL = "postgresql"
    COCKROACHDB = "cockroachdb"


@dataclass(frozen=True)
class Step:
    """One statement that can be repeated. `only`: the product it is for, None for both."""

    sql: str
    only: Product | None = None


def run(steps: Iterable[Step], parameters: Mapping[str, object] | None = None) -> None:
    """Execute the steps of the revision that Alembic is in; the connection is in autocommit."""
    connection = op.get_bind()
    product = Product(connection.dialect.name)
    for step in steps:
        if step.only in (None, product):
            connection.execute(text(step.sql), parameters or {})

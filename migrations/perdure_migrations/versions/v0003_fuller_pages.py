"""Pages of lists are filled: half empty ones made a sleeping run cost over 2 KB.

The room is for the next version of a row (HOT). A list row changes once, when its run closes, and pages
are cleaned as their rows change: half of these updates still stay on their page under W1, and a run
that has ended takes as much as before. Heads change with every step and keep a little more room:
five of six of their updates stay. Pages written earlier keep their room.
"""

from perdure_migrations.steps import Product, Step, run

revision = "0003"
down_revision = "0002"

FILL = (
    "alter table executions set (fillfactor = 70)",
    "alter table visibility set (fillfactor = 90)",
)

STEPS = tuple(Step(sql, Product.POSTGRESQL) for sql in FILL)


def upgrade() -> None:
    run(STEPS)

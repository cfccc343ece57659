"""Pages of heads and lists are filled further: half empty ones made a sleeping run cost over 2 KB.

The room is for the next version of a row (HOT). Pages are cleaned as their rows change, so that less
of it is enough: under W1 three quarters of the updates of heads still stay on their page (98 % before)
and half of the lists' one update (all before), and a run that has ended takes as much as before.
Pages written earlier keep their room.
"""

from perdure_migrations.steps import Product, Step, run

revision = "0003"
down_revision = "0002"

FILL = (
    "alter table executions set (fillfactor = 80)",
    "alter table visibility set (fillfactor = 90)",
)

STEPS = tuple(Step(sql, Product.POSTGRESQL) for sql in FILL)


def upgrade() -> None:
    run(STEPS)

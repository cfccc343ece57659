"""Pages of lists are filled: half empty ones made a sleeping run cost over 2 KB.

The room is for the next version of a row (HOT). A list row changes once, when its run closes, and pages
are cleaned as their rows change: half of these updates still stay on their page under W1, and a run
that has ended takes as much as before. Heads change with every step and keep their room. Pages
written earlier keep theirs.
"""

from perdure_migrations.steps import Product, Step, run

revision = "0003"
down_revision = "0002"

FILL = "alter table visibility set (fillfactor = 90)"

STEPS = (Step(FILL, Product.POSTGRESQL),)


def upgrade() -> None:
    run(STEPS)

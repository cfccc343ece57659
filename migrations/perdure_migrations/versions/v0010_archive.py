"""Whether what is over a namespace's retention goes to the archive, if the installation has one. Null: it does."""

from perdure_migrations.steps import Step, run

revision = "0010"
down_revision = "0009"

ARCHIVE = "alter table namespaces add column if not exists archive bool"

STEPS = (Step(ARCHIVE),)


def upgrade() -> None:
    run(STEPS)

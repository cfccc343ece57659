"""The fixtures that every test may ask for, and how property tests are run."""

import os

from hypothesis import Phase, settings
from tests.fixtures_postgres import database_dsn, postgres_server, scratch_dir, template_database

__all__ = ["database_dsn", "postgres_server", "scratch_dir", "template_database"]

# The suite says the same of the same code each time, and soon: a failing example is not shrunk, which takes longer than
# a test may. PERDURE_HYPOTHESIS=hunt looks for new examples instead, and for the shortest one.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile("hunt", deadline=None)
settings.load_profile(os.environ.get("PERDURE_HYPOTHESIS", "suite"))

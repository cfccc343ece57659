"""The fixtures that every test may ask for, and how property tests are run."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from tests.fixtures_postgres import database_dsn, postgres_server, scratch_dir, template_database

__all__ = ["database_dsn", "postgres_server", "scratch_dir", "template_database"]

# Before any test imports gRPC: as the SDK does, for processes that are forked.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

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

# Its last test judges what all the others of the folder have done: one process runs them.
TOGETHER = ("tests/unit/core/",)


# Makes thousands of cases when it is imported, in each process: not where its tests do not run.
DEAR_TO_COLLECT = "test_rest_document.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_left_out = "not soak" in config.option.markexpr and collection_path.name == DEAR_TO_COLLECT
    return True if is_left_out else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share what is dear to make (a server, a database): each file is one process's."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return ByFile(config, log)

"""sdk/examples/batch_import"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.examples.loading import load_example

from perdure.testing import WorkflowEnvironment

batch_import = load_example("batch_import/batch_import.py")


@pytest.mark.parametrize(
    ("breaks", "began_at"),
    [([], [0]), ([400, 800], [0, 300, 700]), ([1], [0, 0])],
)
async def test_an_attempt_goes_on_where_the_one_before_had_come_to(
    workflow_environment: WorkflowEnvironment,
    tmp_path: Path,
    breaks: list[int],
    began_at: list[int],
) -> None:
    """The batch before the break was written, and not yet said to be: it is written again."""
    client, importer = workflow_environment.client, batch_import.Importer(breaks)
    file, database = batch_import.write_file(tmp_path / "f.csv", 950), tmp_path / "f.db"
    async with batch_import.make_worker(client, importer):
        done = await batch_import.run_import(
            client, "i", batch_import.Import(str(file), str(database))
        )

    assert done == batch_import.Done(lines=950, attempts=len(began_at))
    assert importer.began_at == began_at
    assert batch_import.count(database) == 950

"""The examples as their users run them: one command each, against one `perdure dev`."""

from __future__ import annotations

import pytest
from tests.e2e.command_line import CommandLine
from tests.e2e.examples.loading import EXAMPLES


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("order_saga/order.py", "2500 cents refunded"),
        ("polling/polling.py", "220 degrees after 4 questions"),
        ("fan_out/fan_out.py", "could not be read: broken-0000, broken-0001, broken-0002"),
        ("versioned_activity/pricing.py", "begun before: [1000, 1000], begun after: [1190, 1190]"),
        ("newsletter/newsletter.py", "8 of 8 copies sent"),
        ("batch_import/batch_import.py", "1000 of 1000 lines in 3 attempts"),
    ],
)
def test_it_runs_with_one_command(dev: CommandLine, path: str, says: str) -> None:
    source = EXAMPLES / path
    program = dev.folder / source.name
    program.write_text(source.read_text("utf-8"), "utf-8")

    assert dev.start_program(program).wait(60) == 0

    assert says in program.with_suffix(".log").read_text("utf-8")

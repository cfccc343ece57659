"""`perdure contract verify`: the code of today against the runs and activities of yesterday (B16)."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.testing import contract_one
from typer.testing import CliRunner, Result

from perdure.cli.app import app
from perdure.client import Client
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

ONE = "tests.integration.testing.contract_one"
TWO = "tests.integration.testing.contract_two"
THREE = "tests.integration.testing.contract_three"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """An engine with two runs that the first code has made."""
    async with await WorkflowEnvironment.start_time_skipping() as env:
        worker = Worker(
            env.client,
            task_queue="q",
            workflows=[contract_one.Sale],
            activities=[contract_one.price, contract_one.double, contract_one.charge],
        )
        async with worker:
            for number in (1, 2):
                result = await env.client.execute_workflow(
                    contract_one.Sale.run, number, id=f"sale-{number}", task_queue="q"
                )
                assert result == f"charged {number * 6}"
        yield env.client


async def verify(client: Client, *arguments: str) -> Result:
    """In a thread of its own: the engine runs on this loop."""
    asked = ["contract", "verify", *arguments, "--address", client.core.connection.target]
    return await asyncio.to_thread(CliRunner().invoke, app, asked)


def said(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


async def test_code_that_has_not_changed_has_no_difference(client: Client) -> None:
    result = await verify(client, "--workflows", ONE, "--activities", ONE)

    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 runs, 4 activities run again, 2 not run: not marked pure" in result.stderr
    assert "no differences" in result.stderr


async def test_each_difference_is_said_with_its_event_and_line(client: Client) -> None:
    result = await verify(client, "-w", TWO, "-a", TWO, "--limit", "1", "-o", "json")

    assert result.exit_code == 1
    found = said(result)
    assert [(one["kind"], one["event_id"]) for one in found] == [
        ("INPUT", 17),
        ("RESULT", 23),
        ("ACTIVITY", 5),
        ("ACTIVITY", 11),
    ]
    assert {one["workflow_id"] for one in found} == {"sale-2"}
    assert "'charge' is given 13, recorded is 12" in found[0]["message"]
    assert "returns 'CHARGED 12', recorded is 'charged 12'" in found[1]["message"]
    assert "'price' returns 8, recorded is 6" in found[2]["message"]
    assert "'double' raises OverflowError: too much, recorded is 12" in found[3]["message"]
    assert all("contract_two.py:" in one["site"] for one in found)


async def test_a_run_that_could_not_go_on_is_said(client: Client) -> None:
    result = await verify(client, "-w", THREE, "--query", "WorkflowId = 'sale-1'", "-o", "json")

    assert result.exit_code == 1
    [found] = said(result)
    assert (found["kind"], found["event_id"]) == ("REPLAY", 5)
    assert "activity_type='price'" in found["message"]
    assert "contract_three.py:14" in found["site"]


async def test_histories_from_files_need_no_engine(client: Client, tmp_path: Path) -> None:
    handle = client.get_workflow_handle("sale-1")
    file = tmp_path / "sale-1.json"
    file.write_text((await handle.fetch_history()).to_json(), encoding="utf-8")
    code = tmp_path / "todays_code.py"
    code.write_text(inspect.getsource(contract_one), encoding="utf-8")
    asked = ["contract", "verify", "--file", str(file), "--address", "127.0.0.1:1", "-w"]

    same = await asyncio.to_thread(CliRunner().invoke, app, [*asked, str(code)])
    other = await asyncio.to_thread(CliRunner().invoke, app, [*asked, TWO])

    assert (same.exit_code, other.exit_code) == (0, 1)
    assert "sale-1" in other.stdout
    assert "event 17" in other.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-w", "no.such.module"), "cannot be loaded"),
        (("-w", "no/such/file.py"), "cannot be loaded"),
        (("-w", "json"), "no workflow is defined"),
        (("-w", ONE, "--file", "/dev/null", "--query", "x"), "not both"),
        (("-w", ONE, "--file", "/dev/null"), "not a regular file"),
        (("-w", ONE, "--data-converter", "json:dumps"), "no DataConverter"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], message: str) -> None:
    asked = ["contract", "verify", *arguments, "--address", "127.0.0.1:1"]
    result = CliRunner().invoke(app, asked)

    assert result.exit_code == 2
    assert message in result.stderr

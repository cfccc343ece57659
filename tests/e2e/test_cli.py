"""The command line as a newcomer meets it: an engine, a worker, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command_line import CommandLine
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
START = ("-q", "lab", "--id")


@pytest.fixture(scope="module", autouse=True)
def worker(dev: CommandLine) -> None:
    program = dev.folder / "lab.py"
    shutil.copy(Path(__file__).with_name("lab.py"), program)
    dev.start_program(program)


def test_the_workflow_of_the_readme(dev: CommandLine) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    program = dev.folder / "hello.py"
    address = dev.environment["PERDURE_ADDRESS"]
    program.write_text(example.replace("localhost:7233", address), encoding="utf-8")

    assert dev.start_program(program).wait(60) == 0

    assert program.with_suffix(".log").read_text() == "Hello, World!\n"
    assert "hello-1" in dev.run("workflow", "list").stdout
    assert "WorkflowExecutionCompleted" in dev.run("workflow", "show", "hello-1").stdout


def test_an_order_from_its_start_to_its_result(dev: CommandLine) -> None:
    started = dev.run("workflow", "start", "Order", *START, "order-1", "-i", '{"cents": 5}')
    assert started.returncode == 0, started.stderr
    assert "order-1" in started.stdout

    state = dev.run("workflow", "query", "order-1", "state")
    assert json.loads(state.stdout) == "waiting"
    described = dev.run("workflow", "describe", "order-1", "-o", "json")
    assert json.loads(described.stdout)["status"] == "RUNNING"
    counted = dev.run("workflow", "count", "--status", "running", "--id-prefix", "order-1")
    assert counted.stdout == "1\n"

    signalled = dev.run("workflow", "signal", "order-1", "shipped", "-i", '"T-1"')
    assert (signalled.returncode, signalled.stdout) == (0, "")
    result = dev.run("workflow", "result", "order-1", "--timeout", "60s")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"order": {"cents": 5}, "tracking": "T-1"}

    listed = dev.run("workflow", "list", "--id-prefix", "order-1", "-o", "json").stdout
    (row,) = [json.loads(line) for line in listed.splitlines()]
    assert (row["id"], row["status"]) == ("order-1", "COMPLETED")
    shown = dev.run("workflow", "show", "order-1", "--follow", "-o", "json").stdout
    events = [json.loads(line) for line in shown.splitlines()]
    assert [event["event_id"] for event in events] == list(range(1, len(events) + 1))
    assert len(events) == row["history_length"]


def test_a_virtual_object(dev: CommandLine) -> None:
    add = ("entity", "call", "Counter", "c-1", "add")
    unknown = dev.run(*add, "-i", "5")
    first = dev.run(*add, "-i", "5", "-q", "lab", "--id", "order-1")
    again = dev.run(*add, "-i", "5", "--id", "order-1")
    told = dev.run("entity", "tell", "Counter", "c-1", "add", "-i", "2")
    refused = dev.run(*add, "-i", "-1", "--timeout", "60s")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "Counter c-1 does not exist yet: give --task-queue" in unknown.stderr
    assert (first.stdout, again.stdout) == ("5\n", "5\n"), first.stderr + again.stderr
    assert (told.returncode, told.stdout) == (0, ""), told.stderr
    assert refused.returncode == 4
    assert "only up" in refused.stderr

    assert dev.run("entity", "read", "Counter", "c-1", "value").stdout == "7\n"
    described = dev.run("entity", "describe", "Counter", "c-1", "-o", "json")
    assert json.loads(described.stdout)["id"] == "Counter/c-1"
    listed = dev.run("entity", "list", "Counter", "--key-prefix", "c-", "-o", "json")
    assert [json.loads(line)["key"] for line in listed.stdout.splitlines()] == ["c-1"]
    dev.run("workflow", "pause", "Counter/c-1")
    assert "paused" in dev.run("entity", "list", "Counter").stdout
    assert dev.run("workflow", "unpause", "Counter/c-1").returncode == 0

    assert dev.run("entity", "destroy", "Counter", "c-1").returncode == 0
    assert "c-1" not in dev.run("entity", "list", "Counter").stdout


def test_updates_of_an_order(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Order", *START, "order-2", "-i", '{"amount": 7}')
    update = ("workflow", "update")

    executed = dev.run(*update, "execute", "order-2", "note", "-i", '"größe"', "--update-id", "u-1")
    started = dev.run(*update, "start", "order-2", "note", "-i", '"more"', "-o", "json")
    again = dev.run(*update, "result", "order-2", "u-1")
    refused = dev.run(*update, "execute", "order-2", "note", "-i", '""')
    unknown = dev.run(*update, "result", "order-2", "u-9")

    assert json.loads(executed.stdout) == json.loads(again.stdout) == "1: größe"
    begun = json.loads(started.stdout)
    assert begun["workflow_id"] == "order-2"
    result = dev.run(*update, "result", "order-2", begun["update_id"], "--timeout", "20s")
    assert json.loads(result.stdout) == "2: more"
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "The update failed: Empty: nothing to note" in refused.stderr
    assert unknown.returncode == 3


def test_an_order_is_paused_goes_on_and_is_reset(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Order", *START, "order-3", "-i", '{"cents": 5}')
    state = dev.run("workflow", "query", "order-3", "state")
    assert json.loads(state.stdout) == "waiting"
    paused = dev.run("workflow", "pause", "order-3", "--reason", "audit")
    assert (paused.returncode, paused.stderr) == (0, "order-3 is paused.\n")
    why = dev.run("workflow", "why", "order-3")
    assert re.match(r"It waits for an operator to unpause it: paused by \S+: audit\.", why.stdout)
    counted = dev.run("workflow", "count", "--status", "paused", "--id-prefix", "order-3")
    assert counted.stdout == "1\n"
    assert dev.run("workflow", "pause", "order-3").returncode == 1
    assert dev.run("workflow", "unpause", "order-3").returncode == 0
    dev.run("workflow", "signal", "order-3", "shipped", "-i", '"T-3"')
    first = dev.run("workflow", "result", "order-3", "--timeout", "60s")

    to = ("--type", "first-workflow-task", "--reapply-exclude", "update", "--reason", "again")
    reset = dev.run("workflow", "reset", "order-3", *to, "-o", "json")
    assert reset.returncode == 0, reset.stderr
    new = json.loads(reset.stdout)["run_id"]
    result = dev.run("workflow", "result", "order-3", "--timeout", "60s")
    assert json.loads(result.stdout) == json.loads(first.stdout)
    described = json.loads(dev.run("workflow", "describe", "order-3", "-o", "json").stdout)
    assert described["run_id"] == new != described["reset_from_run_id"]
    bad = dev.run("workflow", "reset", "order-3", "--event-id", "2")
    assert bad.returncode == 2
    assert "workflow_task_finish_event_id" in bad.stderr


def test_search_attributes_from_a_start_to_a_count(dev: CommandLine) -> None:
    """On a real database: set at the start, changed by the code, found by filters at once."""

    def found(query: str) -> list[dict[str, Any]]:
        listed = dev.run("workflow", "list", "--query", query, "-o", "json")
        assert listed.returncode == 0, listed.stderr
        return [json.loads(line) for line in listed.stdout.splitlines()]

    attributes = ("--search-attribute", 'Region="eu"', "--search-attribute", "Amount=12")
    started = dev.run("workflow", "start", "Labelled", *START, "labelled-1", *attributes)
    assert started.returncode == 0, started.stderr
    (row,) = found("Region = 'eu' AND Amount BETWEEN 10 AND 12.5")
    assert row["id"] == "labelled-1"

    wait_until(lambda: bool(found("Step = 'waiting'")), 30)
    described = json.loads(dev.run("workflow", "describe", "labelled-1", "-o", "json").stdout)
    wanted = {"Amount": 12, "Region": "eu", "Step": "waiting"}
    assert described["typed_search_attributes"] == wanted
    dev.run("workflow", "signal", "labelled-1", "go")
    result = dev.run("workflow", "result", "labelled-1", "--timeout", "60s")
    assert json.loads(result.stdout) == "eu 12"

    (row,) = found("Step = 'done' AND Amount IS NULL ORDER BY CloseTime DESC")
    assert (row["status"], row["typed_search_attributes"]["Region"]) == ("COMPLETED", "eu")
    assert found("Step = 'waiting'") == []
    grouped = dev.run("workflow", "count", "--query", "Region = 'eu' GROUP BY ExecutionStatus")
    assert grouped.stdout.split() == ["GROUP", "COUNT", "Completed", "1"]
    refused = dev.run("workflow", "list", "--query", "Region = eu")
    assert refused.returncode != 0
    assert "position 10" in refused.stderr


def test_execute_with_a_file(dev: CommandLine) -> None:
    (dev.folder / "value.json").write_text('["größe", 1.5, null]', encoding="utf-8")

    found = dev.run("workflow", "execute", "Echo", *START, "echo-1", "--input-file", "value.json")

    assert json.loads(found.stdout) == ["größe", 1.5, None]
    assert "Started echo-1" in found.stderr


def test_execute_with_standard_input(dev: CommandLine) -> None:
    arguments = ("workflow", "execute", "Echo", *START, "echo-2", "--input-file", "-")

    assert json.loads(dev.run(*arguments, input='{"a": 1}').stdout) == {"a": 1}


def test_a_failed_workflow_is_4(dev: CommandLine) -> None:
    found = dev.run("workflow", "execute", "Failing", *START, "failing-1")

    assert (found.returncode, found.stdout) == (4, "")
    assert "Refused: no money" in found.stderr


def test_two_hundred_activities_wake_their_workflow_once(dev: CommandLine) -> None:
    found = dev.run("workflow", "execute", "Doubles", *START, "doubles-1", "-i", "200")
    assert (found.returncode, json.loads(found.stdout)) == (0, sum(range(200)) * 2)

    shown = dev.run("workflow", "show", "doubles-1", "-o", "json").stdout.splitlines()
    kinds = [json.loads(line)["event_type"] for line in shown]
    assert kinds.count("ActivityTaskCompleted") == 200
    assert kinds.count("WorkflowTaskCompleted") == 2


def test_a_saga_waits_for_an_operator(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Buying", *START, "buying-1")
    wait_until(lambda: "operator" in dev.run("workflow", "why", "buying-1").stdout, 30, "parked")

    told = dev.run("workflow", "saga", "buying-1", "retry", "--reason", "it has opened")
    result = dev.run("workflow", "result", "buying-1")

    assert (told.returncode, result.returncode) == (0, 4)
    assert "sold out" in result.stderr
    history = dev.run("workflow", "show", "buying-1").stdout
    assert history.count("ActivityTaskScheduled") == 2
    assert "it has opened" in history


def test_a_terminated_workflow_is_4(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Sleeping", *START, "terminated-1")
    assert dev.run("workflow", "terminate", "terminated-1", "--reason", "enough").returncode == 0

    found = dev.run("workflow", "result", "terminated-1")

    assert found.returncode == 4
    assert "Terminated" in found.stderr


def test_a_workflow_that_timed_out_is_5(dev: CommandLine) -> None:
    found = dev.run("workflow", "execute", "Sleeping", *START, "late-1", "--run-timeout", "1s")

    assert (found.returncode, found.stdout) == (5, "")


def test_a_wait_that_timed_out_is_5(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Sleeping", *START, "slow-1")

    assert dev.run("workflow", "result", "slow-1", "--timeout", "200ms").returncode == 5


def test_a_cancelled_workflow_is_6(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Sleeping", *START, "cancelled-1")
    assert dev.run("workflow", "cancel", "cancelled-1").returncode == 0

    assert dev.run("workflow", "result", "cancelled-1").returncode == 6


def test_a_workflow_says_why_it_does_not_move(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Sleeping", *START, "sleeps-1")
    dev.run("workflow", "start", "Sleeping", "--task-queue", "nobodys", "--id", "waits-1")

    waits = dev.run("workflow", "why", "waits-1")
    as_json = json.loads(dev.run("workflow", "why", "waits-1", "-o", "json").stdout)

    assert "polls the task queue nobodys for workflows; nobody polls it" in waits.stdout
    assert "since" in waits.stdout
    assert [(one["kind"], one["pollers"]) for one in as_json] == [("WORKER_FOR_WORKFLOW_TASK", 0)]
    wait_until(
        lambda: "for timer" in dev.run("workflow", "why", "sleeps-1").stdout, 30, "it sleeps"
    )


def test_a_workflow_is_deleted_when_that_is_confirmed(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Sleeping", *START, "deleted-1")

    asked = dev.run("workflow", "delete", "deleted-1", input="n\n")
    assert asked.returncode == 1
    assert "deleted-1" in asked.stderr
    assert dev.run("workflow", "describe", "deleted-1").returncode == 0

    assert dev.run("workflow", "delete", "deleted-1", "--yes").returncode == 0
    assert dev.run("workflow", "describe", "deleted-1").returncode == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe", "nobody"),
        ("why", "nobody"),
        ("show", "nobody"),
        ("result", "nobody"),
        ("query", "nobody", "state"),
        ("signal", "nobody", "shipped"),
        ("cancel", "nobody"),
        ("terminate", "nobody"),
        ("delete", "nobody", "--yes"),
    ],
)
def test_what_is_not_there_is_3(dev: CommandLine, arguments: tuple[str, ...]) -> None:
    found = dev.run("workflow", *arguments)

    assert (found.returncode, found.stdout) == (3, "")
    assert "nobody" in found.stderr


def test_a_second_start_of_a_running_id_is_1(dev: CommandLine) -> None:
    assert dev.run("workflow", "start", "Sleeping", *START, "once-1").returncode == 0

    found = dev.run("workflow", "start", "Sleeping", *START, "once-1")
    assert found.returncode == 1
    assert "already running" in found.stderr


def test_what_the_engine_refuses_by_value_is_2(dev: CommandLine) -> None:
    found = dev.run("workflow", "start", "Echo", *START, "x" * 5000)

    assert found.returncode == 2
    assert "workflow_id" in found.stderr


def test_a_namespace_that_is_not_there_is_3(dev: CommandLine) -> None:
    assert dev.run("workflow", "list", "-n", "nowhere").returncode == 3


def test_ctrl_c_ends_a_wait_with_130(dev: CommandLine) -> None:
    dev.run("workflow", "start", "Sleeping", *START, "waited-1")
    waiting = dev.start("workflow", "show", "waited-1", "--follow")
    assert waiting.stdout is not None
    assert "WorkflowExecutionStarted" in waiting.stdout.readline()

    waiting.send_signal(signal.SIGINT)

    assert waiting.wait(30) == 130


def test_namespaces(dev: CommandLine) -> None:
    created = dev.run("namespace", "create", "shop", "--retention", "2d", "-o", "json")
    assert created.returncode == 0, created.stderr
    assert json.loads(created.stdout)["retention"] == 2 * 24 * 3600

    updated = dev.run("namespace", "update", "shop", "--description", "A shop", "-o", "json")
    assert json.loads(updated.stdout)["description"] == "A shop"
    assert json.loads(updated.stdout)["retention"] == 2 * 24 * 3600
    assert "shop" in dev.run("namespace", "list").stdout
    assert "A shop" in dev.run("namespace", "describe", "shop").stdout
    assert dev.run("namespace", "describe", "nowhere").returncode == 3


def test_the_database_is_told_of_by_db_status(dev: CommandLine) -> None:
    found = dev.run("db", "status")

    # `perdure dev` keeps its database to itself: without a URL there is nothing to tell.
    assert found.returncode != 0
    assert found.stderr


def test_without_an_engine_one_is_told_how_to_start_it(perdure: CommandLine) -> None:
    found = perdure.run("workflow", "list", "--address", "127.0.0.1:1", "--call-timeout", "1s")

    assert found.returncode == 1
    assert "perdure dev" in found.stderr


def test_what_was_started_is_there_after_a_restart(perdure: CommandLine, tmp_path: Path) -> None:
    first = perdure.start_dev(tmp_path / "data")
    assert perdure.run("workflow", "start", "Order", "-q", "x", "--id", "kept").returncode == 0
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 0

    second = perdure.start_dev(tmp_path / "data")

    assert "kept" in perdure.run("workflow", "list").stdout
    second.send_signal(signal.SIGINT)
    wait_until(lambda: second.poll() is not None, 60, "perdure dev does not stop")
    assert second.returncode == 0

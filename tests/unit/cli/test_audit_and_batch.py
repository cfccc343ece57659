"""`perdure audit`, `perdure batch` and `workflow terminate --query`, against a client that remembers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perdure.cli.app import app
from perdure.client import (
    AuditEntry,
    AuditHead,
    AuditVerification,
    BatchOperationInfo,
    BatchOperationState,
    BatchOperationType,
    BrokenChain,
    Client,
)
from perdure.common import ResetReapplyExcludeType, ResetType

TIME = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HEAD = AuditHead(chain=3, seq=7, hash=b"\xab" * 32, time=TIME)
ENTRY = AuditEntry(
    place=HEAD,
    action="workflow.terminate",
    namespace="default",
    namespace_id="n",
    workflow_id="order-1",
    run_id="r",
    identity="op@host",
    reason="stuck",
    request_id="q",
    subject="",
    before="RUNNING",
    after="TERMINATED",
    content=b"\x93",
)
JOB = BatchOperationInfo(
    job_id="job-1",
    operation=BatchOperationType.TERMINATE,
    state=BatchOperationState.RUNNING,
    query="WorkflowType = 'Order'",
    reason="",
    identity="op@host",
    start_time=TIME,
    close_time=None,
    total=3,
    done=1,
    failed=0,
    last_failure="",
    rps=50,
)


class Operator:
    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.broken: list[BrokenChain] = []
        self.core = SimpleNamespace(connection=SimpleNamespace(wait_ready=self._ready))
        self.operator = self

    def note(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        options.pop("rpc_timeout", None)
        self.calls.append((name, args, options))

    async def list_audit(self, **options: Any) -> AsyncIterator[AuditEntry]:
        self.note("list_audit", (), options)
        for _ in range(3):
            yield ENTRY

    async def audit_heads(self, **options: Any) -> list[AuditHead]:
        return [HEAD]

    async def verify_audit(self, expected: list[AuditHead], **options: Any) -> AuditVerification:
        self.note("verify_audit", (expected,), options)
        return AuditVerification(rows=9, heads=[HEAD], broken=self.broken)

    async def count_batch_operation(self, *args: Any, **options: Any) -> int:
        self.note("count", args, options)
        return 3

    async def start_batch_operation(self, *args: Any, **options: Any) -> str:
        self.note("start", args, options)
        return options["job_id"] or "made"

    async def describe_batch_operation(self, *args: Any, **options: Any) -> BatchOperationInfo:
        return JOB

    async def list_batch_operations(self, **options: Any) -> AsyncIterator[BatchOperationInfo]:
        for _ in range(2):
            yield JOB

    async def stop_batch_operation(self, *args: Any, **options: Any) -> None:
        self.note("stop", args, options)

    async def close(self) -> None: ...

    async def _ready(self, _: float) -> None: ...


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Operator:
    client = Operator()

    async def connect(*_: Any, **__: Any) -> Operator:
        return client

    monkeypatch.setattr(Client, "connect", connect)
    return client


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=input)


# ---- audit


def test_the_log_of_the_namespace_or_of_everything(operator: Operator) -> None:
    listed = run("audit", "list", "--limit", "2", "-o", "json")
    lines = [json.loads(line) for line in listed.stdout.splitlines()]
    assert len(lines) == 2
    assert lines[0]["action"] == "workflow.terminate"
    assert (lines[0]["chain"], lines[0]["seq"], lines[0]["hash"]) == (3, 7, "ab" * 32)
    assert "more than 2" in listed.stderr
    run("audit", "list", "--all", "--action", "namespace.create", "--since", "2026-01-01T00:00:00Z")
    (_, _, here), (_, _, everywhere) = operator.calls
    assert (here["namespace"], here["time_min"]) == ("default", None)
    assert (everywhere["namespace"], everywhere["action"]) == ("", "namespace.create")
    assert everywhere["time_min"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_workflow_is_one_of_a_namespace(operator: Operator) -> None:
    refused = run("audit", "list", "--all", "--workflow-id", "order-1")
    assert (refused.exit_code, operator.calls) == (2, [])


def test_a_table_for_people(operator: Operator) -> None:
    shown = run("audit", "list").stdout
    assert "op@host" in shown
    assert "RUNNING → TERMINATED" in shown


def test_exported_lines_can_be_verified_without_an_engine(operator: Operator) -> None:
    line = json.loads(run("audit", "export").stdout.splitlines()[0])
    assert (line["hash"], line["content"]) == ("ab" * 32, "93")


def test_heads_are_written_and_read_back(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "heads"
    file.write_text(run("audit", "head").stdout)
    verified = run("audit", "verify", "--head", str(file))
    assert verified.exit_code == 0
    assert "9 rows in 1 chains" in verified.stderr
    assert operator.calls == [("verify_audit", ([HEAD],), {})]


def test_a_broken_chain_is_named_with_exit_code_1(operator: Operator) -> None:
    operator.broken = [BrokenChain(chain=3, seq=5, why="its hash is not that of its content")]
    verified = run("audit", "verify")
    assert verified.exit_code == 1
    assert "chain 3, row 5: its hash" in verified.stderr


@pytest.mark.parametrize("text", ["no json", '{"chain": 1}', '{"chain": 1, "seq": 2, "hash": "x"}'])
def test_a_file_that_holds_no_heads_is_refused(
    operator: Operator, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "heads"
    file.write_text(text)
    assert run("audit", "verify", "--head", str(file)).exit_code == 2
    assert run("audit", "verify", "--head", str(tmp_path / "missing")).exit_code == 2
    assert operator.calls == []


# ---- batch

QUERY = ("--query", "WorkflowType = 'Order'")


def test_a_dry_run_counts_and_begins_nothing(operator: Operator) -> None:
    counted = run("batch", "start", *QUERY, "--operation", "delete", "--dry-run")
    assert counted.stdout == "3\n"
    assert operator.calls == [("count", (QUERY[1], BatchOperationType.DELETE), {})]


def test_it_asks_before_it_begins(operator: Operator) -> None:
    refused = run("batch", "start", *QUERY, "--operation", "cancel", input="n\n")
    assert refused.exit_code == 1
    assert "Cancel 3 runs?" in refused.stderr
    assert [name for name, _, _ in operator.calls] == ["count"]


def test_what_is_asked_of_the_engine(operator: Operator) -> None:
    begun = run(
        *("batch", "start", *QUERY, "--operation", "signal", "--signal", "wake", "-i", "7"),
        *("--job-id", "mine", "--rps", "9", "--reason", "r", "--yes"),
    )
    assert begun.stdout == "mine\n"
    name, args, options = operator.calls[-1]
    assert (name, args) == ("start", (QUERY[1], BatchOperationType.SIGNAL))
    assert options == {
        "reason": "r",
        "job_id": "mine",
        "signal": "wake",
        "signal_args": [7],
        "rps": 9,
        "reset_type": None,
        "build_id": "",
        "reapply_exclude": [],
    }


def test_a_reset_of_many(operator: Operator) -> None:
    begun = run(
        *("batch", "start", *QUERY, "--operation", "reset", "--build-id", "b1", "--yes"),
        *("--reapply-exclude", "update"),
    )
    assert begun.exit_code == 0
    name, args, options = operator.calls[-1]
    assert (name, args) == ("start", (QUERY[1], BatchOperationType.RESET))
    assert (options["reset_type"], options["build_id"]) == (ResetType.BUILD_ID, "b1")
    assert options["reapply_exclude"] == [ResetReapplyExcludeType.UPDATE]
    begun = run("workflow", "reset", *QUERY, "--type", "first-workflow-task", input="y\n")
    assert "Reset 3 runs?" in begun.stderr
    name, args, options = operator.calls[-1]
    assert (name, args) == ("start", (QUERY[1], BatchOperationType.RESET))
    assert options["reset_type"] is ResetType.FIRST_WORKFLOW_TASK


@pytest.mark.parametrize(
    "words",
    [
        ("--operation", "reset"),
        ("--operation", "reset", "--type", "build-id"),
        ("--operation", "reset", "--type", "last-workflow-task", "--build-id", "b1"),
        ("--operation", "cancel", "--type", "last-workflow-task"),
        ("--operation", "cancel", "--build-id", "b1"),
        ("--operation", "cancel", "--reapply-exclude", "signal"),
        ("--operation", "reset", "--type", "last-workflow-task", "--reapply-exclude", "timers"),
    ],
)
def test_where_to_goes_with_a_reset(operator: Operator, words: tuple[str, ...]) -> None:
    assert run("batch", "start", *QUERY, *words, "--yes").exit_code == 2
    assert operator.calls == []


@pytest.mark.parametrize(
    "words", [("--operation", "signal"), ("--operation", "cancel", "--signal", "s")]
)
def test_a_signal_goes_with_its_name(operator: Operator, words: tuple[str, ...]) -> None:
    assert run("batch", "start", *QUERY, *words, "--yes").exit_code == 2
    assert operator.calls == []


def test_how_far_it_is(operator: Operator) -> None:
    shown = json.loads(run("batch", "describe", "job-1", "-o", "json").stdout)
    assert (shown["state"], shown["done"], shown["total"]) == ("RUNNING", 1, 3)
    assert "1/3" in run("batch", "list").stdout
    assert "running" in run("batch", "describe", "job-1").stdout


def test_stop(operator: Operator) -> None:
    assert run("batch", "stop", "job-1", "--reason", "enough").exit_code == 0
    assert operator.calls == [("stop", ("job-1",), {"reason": "enough"})]


# ---- workflow terminate --query


def test_many_workflows_are_terminated_by_a_batch_operation(operator: Operator) -> None:
    begun = run("workflow", "terminate", *QUERY, "--reason", "over", "--yes")
    assert begun.exit_code == 0
    name, args, options = operator.calls[-1]
    assert (name, args, options["reason"]) == (
        "start",
        (QUERY[1], BatchOperationType.TERMINATE),
        "over",
    )


@pytest.mark.parametrize("words", [(), ("order-1", *QUERY), ("--run-id", "r", *QUERY)])
def test_either_one_workflow_or_a_query(operator: Operator, words: tuple[str, ...]) -> None:
    assert run("workflow", "terminate", *words).exit_code == 2
    assert run("workflow", "reset", "-t", "last-workflow-task", *words).exit_code == 2
    assert operator.calls == []

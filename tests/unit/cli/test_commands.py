"""The commands against a client that remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perdure.cli.app import app
from perdure.client import (
    Client,
    HistoryEvent,
    NamespaceInfo,
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionCountAggregationGroup,
    WorkflowHistory,
)
from perdure.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIdConflictPolicy,
    WorkflowStatus,
)
from perdure.converter import DataConverter, Payload
from perdure.errors import (
    ApplicationError,
    CancelledError,
    RPCError,
    RPCStatusCode,
    TimeoutError,
    TimeoutType,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)

CONVERTER = DataConverter.default.payload_converter
STARTED = datetime(2026, 11, 29, 10, tzinfo=UTC)
EVIL = "order-\x1b[31m\x1b]0;owned\x07\u202e1"


class FakeHandle:
    def __init__(self, client: FakeClient, id: str) -> None:
        self.id = id
        self.result_run_id = "run-1"
        self._client = client

    async def result(self, *, rpc_timeout: timedelta | None) -> Any:
        self._client.asked.append(("result", self.id, rpc_timeout))
        return self._client.answer()

    async def signal(self, name: str, *, args: list[Any], rpc_timeout: timedelta) -> None:
        self._client.asked.append(("signal", self.id, name, args))
        self._client.answer()

    async def query(self, name: str, *, args: list[Any], rpc_timeout: timedelta) -> Any:
        self._client.asked.append(("query", self.id, name, args))
        return self._client.answer()

    async def cancel(self, *, reason: str, rpc_timeout: timedelta) -> None:
        self._client.asked.append(("cancel", self.id, reason))
        self._client.answer()

    async def terminate(self, *, reason: str, rpc_timeout: timedelta) -> None:
        self._client.asked.append(("terminate", self.id, reason))
        self._client.answer()

    async def reset(self, **options: Any) -> FakeHandle:
        self._client.asked.append(("reset", self.id, options))
        self._client.answer()
        return FakeHandle(self._client, self.id)

    async def pause(self, *, reason: str, rpc_timeout: timedelta) -> None:
        self._client.asked.append(("pause", self.id, reason))
        self._client.answer()

    async def unpause(self, *, reason: str, rpc_timeout: timedelta) -> None:
        self._client.asked.append(("unpause", self.id, reason))
        self._client.answer()

    async def resume(self, *, reason: str, rpc_timeout: timedelta) -> None:
        self._client.asked.append(("resume", self.id, reason))
        self._client.answer()

    async def execute_update(self, name: str, **options: Any) -> Any:
        self._client.asked.append(("execute update", self.id, name, options))
        return self._client.answer()

    async def start_update(self, name: str, **options: Any) -> FakeUpdate:
        self._client.asked.append(("start update", self.id, name, options))
        return FakeUpdate(self._client, options["id"] or "new")

    def get_update_handle(self, id: str) -> FakeUpdate:
        return FakeUpdate(self._client, id)

    async def fetch_history_events(
        self, *, wait_new_event: bool, rpc_timeout: timedelta | None
    ) -> AsyncIterator[HistoryEvent]:
        self._client.asked.append(("history", wait_new_event, rpc_timeout))
        for event in self._client.answer():
            yield event


class FakeUpdate:
    """Has failed already when its client answers with a failure."""

    workflow_run_id = "run-1"

    def __init__(self, client: FakeClient, id: str) -> None:
        self._client = client
        self.id = id
        self.has_failed = isinstance(client.value, Exception)

    async def result(self, *, rpc_timeout: timedelta | None = None) -> Any:
        self._client.asked.append(("update result", self.id, rpc_timeout))
        return self._client.answer()


class FakeClient:
    """Answers everything with `value`, or raises it."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.value: Any = None
        self.core = SimpleNamespace(
            connection=SimpleNamespace(wait_ready=self._wait_ready),
            decode_or_keep=self._decode,
        )
        self.operator = SimpleNamespace(list_namespaces=self._namespaces)

    def answer(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    async def start_workflow(self, workflow: str, **options: Any) -> FakeHandle:
        self.asked.append(("start", workflow, options))
        return FakeHandle(self, options["id"])

    def get_workflow_handle(self, workflow_id: str, *, run_id: str | None) -> FakeHandle:
        return FakeHandle(self, workflow_id)

    async def list_workflows(
        self, query: str | None, **wanted: Any
    ) -> AsyncIterator[WorkflowExecution]:
        self.asked.append(("list", wanted, query))
        for one in self.answer()[: wanted["limit"]]:
            yield one

    async def count_workflows(self, query: str | None, **wanted: Any) -> WorkflowExecutionCount:
        self.asked.append(("count", wanted, query))
        count: WorkflowExecutionCount = self.answer()
        return count

    async def close(self) -> None:
        self.asked.append(("close",))

    async def _namespaces(self, *, rpc_timeout: timedelta) -> list[NamespaceInfo]:
        found: list[NamespaceInfo] = self.answer()
        return found

    async def _wait_ready(self, timeout_s: float) -> None:
        self.asked.append(("connect", timeout_s))

    @staticmethod
    def _decode(payload: Payload) -> Any:
        return CONVERTER.from_payload(payload)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    async def connect(address: str, *, namespace: str, **_: Any) -> FakeClient:
        fake.asked.append(("address", address, namespace))
        return fake

    monkeypatch.setattr(Client, "connect", connect)
    monkeypatch.setenv("PERDURE_CONFIG", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    for name in ("PERDURE_ADDRESS", "PERDURE_NAMESPACE", "PERDURE_OUTPUT", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def execution(id: str = "order-1", **changes: Any) -> WorkflowExecution:
    values: dict[str, Any] = {
        "id": id,
        "run_id": "run-1",
        "workflow_type": "Order",
        "task_queue": "orders",
        "status": WorkflowStatus.RUNNING,
        "start_time": STARTED,
        "close_time": None,
        "history_length": 3,
        "history_size_bytes": 100,
        "memo": {"who": "me"},
        "stuck": False,
        "stuck_reason": "",
    }
    return WorkflowExecution(**{**values, **changes})


def test_start_passes_everything_on(client: FakeClient) -> None:
    found = run(
        *("workflow", "start", "Order", "-q", "orders", "--id", "order-1", "-i", '{"a": 1}'),
        *("-i", "2", "--run-timeout", "1h", "--conflict-policy", "use-existing"),
        *("--memo", 'who="me"', "--address", "engine:1", "-n", "shop", "--call-timeout", "3s"),
        *("--cron-schedule", "0 9 * * MON-FRI", "-o", "json"),
    )

    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout) == {"workflow_id": "order-1", "run_id": "run-1"}
    assert client.asked[:2] == [("address", "engine:1", "shop"), ("connect", 3.0)]
    _, workflow, options = client.asked[2]
    assert workflow == "Order"
    assert options["args"] == [{"a": 1}, 2]
    assert options["task_queue"] == "orders"
    assert options["run_timeout"] == timedelta(hours=1)
    assert options["rpc_timeout"] == timedelta(seconds=3)
    assert options["id_conflict_policy"] is WorkflowIdConflictPolicy.USE_EXISTING
    assert options["memo"] == {"who": "me"}
    assert options["cron_schedule"] == "0 9 * * MON-FRI"
    assert client.asked[-1] == ("close",)


def test_start_without_an_id_makes_one(client: FakeClient) -> None:
    found = run("workflow", "start", "Order", "-q", "orders")

    assert client.asked[2][2]["id"] in found.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("start", "Order", "-q", "orders", "-i", "World"),
        ("start", "Order", "-q", "orders", "--input-file", "/dev/zero"),
        ("start", "Order", "-q", "orders", "--run-timeout", "soon"),
        ("start", "Order", "-q", "orders", "--memo", "nothing"),
        ("start", "Order", "-q", "orders", "--search-attribute", "nothing"),
        ("start", "Order", "-q", "orders", "--search-attribute", "a={}"),
        ("start", "Order", "-q", "orders", "--search-attribute", "a:Int=1.5"),
        ("start", "Order", "-q", "orders", "--search-attribute", "a:Colour=1"),
        ("start", "Order", "-q", "orders", "--search-attribute", 'a:Datetime="soon"'),
        ("start", "Order", "-q", "orders", "--reuse-policy", "maybe"),
        ("start", "Order"),
        ("list", "--status", "lost"),
        ("list", "--since", "yesterday"),
        ("list", "--limit", "-1"),
        ("result", "order-1", "--timeout", "0s"),
        ("list", "-o", "xml"),
        ("list", "--address", "a b"),
        ("nonsense",),
    ],
)
def test_a_mistake_in_the_arguments_needs_no_engine(
    client: FakeClient, arguments: tuple[str, ...]
) -> None:
    found = run("workflow", *arguments)

    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr
    assert client.asked == []


def test_execute_prints_the_result_alone(client: FakeClient) -> None:
    client.value = {"paid": True}

    found = run("workflow", "execute", "Order", "-q", "orders", "--id", "order-1")

    assert found.exit_code == 0
    assert json.loads(found.stdout) == {"paid": True}
    assert "Started order-1 (run run-1)." in found.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WorkflowFailureError(cause=ApplicationError("no money")), 4),
        (WorkflowFailureError(cause=TimeoutError("late", type=TimeoutType.START_TO_CLOSE)), 5),
        (WorkflowFailureError(cause=CancelledError()), 6),
        (RPCError("no such workflow", RPCStatusCode.NOT_FOUND), 3),
        (RPCError("not closed in time", RPCStatusCode.DEADLINE_EXCEEDED), 5),
        (RPCError("refused", RPCStatusCode.PERMISSION_DENIED), 1),
    ],
)
@pytest.mark.parametrize("command", [("execute", "Order", "-q", "orders"), ("result", "order-1")])
def test_how_a_workflow_ended_is_the_exit_code(
    client: FakeClient, command: tuple[str, ...], error: Exception, code: int
) -> None:
    client.value = error

    found = run("workflow", *command)

    assert found.exit_code == code
    assert found.stdout == ""
    assert found.stderr


def test_an_interrupted_wait_is_130(client: FakeClient) -> None:
    client.value = None

    def interrupt() -> None:
        raise KeyboardInterrupt

    client.answer = interrupt  # type: ignore[method-assign]

    found = run("workflow", "result", "order-1")

    assert found.exit_code == 130
    assert "Interrupted" in found.stderr


def test_signal_cancel_terminate(client: FakeClient) -> None:
    for arguments in (
        ("signal", "order-1", "shipped", "-i", '"T"'),
        ("cancel", "order-1", "--reason", "changed my mind"),
        ("terminate", "order-1"),
    ):
        found = run("workflow", *arguments)
        assert (found.exit_code, found.stdout) == (0, "")

    assert [one for one in client.asked if one[0] in ("signal", "cancel", "terminate")] == [
        ("signal", "order-1", "shipped", ["T"]),
        ("cancel", "order-1", "changed my mind"),
        ("terminate", "order-1", ""),
    ]


def test_update_execute_start_and_result(client: FakeClient) -> None:
    client.value = {"total": 7}

    executed = run(
        *("workflow", "update", "execute", "order-1", "add", "-i", '"T"'),
        *("--update-id", "u-1", "--timeout", "5s"),
    )
    started = run(
        "workflow", "update", "start", "order-1", "add", "--update-id", "u-1", "-o", "json"
    )
    result = run("workflow", "update", "result", "order-1", "u-1", "--timeout", "5s")

    assert json.loads(executed.stdout) == json.loads(result.stdout) == {"total": 7}
    assert json.loads(started.stdout) == {
        "workflow_id": "order-1",
        "run_id": "run-1",
        "update_id": "u-1",
    }
    asked = [one for one in client.asked if "update" in one[0]]
    wait = timedelta(seconds=5)
    assert asked[0] == (
        "execute update",
        "order-1",
        "add",
        {"args": ["T"], "id": "u-1", "rpc_timeout": wait},
    )
    assert asked[1][3]["wait_for_stage"].name == "ACCEPTED"
    assert asked[2] == ("update result", "u-1", wait)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            WorkflowUpdateFailedError(ApplicationError("not now", type="Refused")),
            4,
            "The update failed: Refused: not now",
        ),
        (WorkflowUpdateRPCTimeoutOrCancelledError(), 5, "waiting for update"),
    ],
)
@pytest.mark.parametrize("verb", ["execute", "start", "result"])
def test_an_update_that_comes_to_nothing(
    client: FakeClient, verb: str, error: Exception, code: int, said: str
) -> None:
    client.value = error

    found = run("workflow", "update", verb, "order-1", "add")

    assert found.exit_code == code
    assert said in found.stderr
    assert found.stdout == ""


def test_stack_prints_where_each_task_waits(client: FakeClient) -> None:
    client.value = "main:\n  a.py:7 in Order.run\n\n\x1b[31msignal pay:\n  a.py:9 in Order.pay"

    found = run("workflow", "stack", "order-1")

    assert found.exit_code == 0
    assert ("query", "order-1", "__stack_trace", []) in client.asked
    assert found.stdout.splitlines() == [
        "main:",
        "  a.py:7 in Order.run",
        "",
        "signal pay:",
        "  a.py:9 in Order.pay",
    ]
    assert json.loads(run("workflow", "stack", "order-1", "-o", "json").stdout) == client.value


def test_query_prints_the_answer_as_json(client: FakeClient) -> None:
    client.value = ["größe", STARTED]

    found = run("workflow", "query", "order-1", "state", "-i", "1")

    assert json.loads(found.stdout) == ["größe", "2026-11-29T10:00:00Z"]
    assert client.asked[2] == ("query", "order-1", "state", [1])


def test_list_as_a_table(client: FakeClient) -> None:
    client.value = [execution("order-2"), execution(status=WorkflowStatus.FAILED)]

    found = run(
        "workflow", "list", "--status", "failed", "--status", "timed-out", "--type", "Order"
    )

    lines = [line.split() for line in found.stdout.splitlines()]
    assert lines[0][:2] == ["WORKFLOW", "ID"]
    assert lines[1][:3] == ["order-2", "Order", "RUNNING"]
    assert lines[2][:3] == ["order-1", "Order", "FAILED"]
    _, wanted, _ = client.asked[2]
    assert wanted["status"] == [WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT]
    assert wanted["workflow_type"] == "Order"


def test_list_as_json_is_one_line_each(client: FakeClient) -> None:
    client.value = [execution("order-2"), execution()]

    found = run("workflow", "list", "-o", "json")

    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["order-2", "order-1"]
    assert rows[0]["status"] == "RUNNING"
    assert rows[0]["start_time"] == "2026-11-29T10:00:00Z"
    assert rows[0]["memo"] == {"who": "me"}


def test_list_says_that_there_are_more(client: FakeClient) -> None:
    client.value = [execution(f"order-{number}") for number in range(5)]

    found = run("workflow", "list", "--limit", "2", "-o", "json")

    assert len(found.stdout.splitlines()) == 2
    assert "more than 2" in found.stderr


def test_archived_runs_are_listed_when_they_are_asked_for(client: FakeClient) -> None:
    client.value = [execution(status=WorkflowStatus.COMPLETED, archived=True)]

    found = run("workflow", "list", "--archived", "-o", "json")
    run("workflow", "list")

    assert json.loads(found.stdout)["archived"] is True
    lists = [one for one in client.asked if one[0] == "list"]
    assert [wanted["archived"] for _, wanted, _ in lists] == [True, False]


def test_a_stuck_run_is_shown_as_stuck(client: FakeClient) -> None:
    client.value = [execution(stuck=True, stuck_reason="NondeterminismError")]

    assert "stuck" in run("workflow", "list").stdout


def test_ids_are_printed_without_what_a_terminal_obeys(client: FakeClient) -> None:
    client.value = [execution(EVIL)]

    table = run("workflow", "list").stdout
    line = run("workflow", "list", "-o", "json").stdout

    assert "order-1" in table
    assert not {"\x1b", "\x07", "\u202e"} & set(table + line)
    assert json.loads(line)["id"] == EVIL


def test_an_evil_message_is_cleaned_too(client: FakeClient) -> None:
    client.value = RPCError(f"no workflow {EVIL}", RPCStatusCode.NOT_FOUND)

    found = run("workflow", "cancel", "x")

    assert "no workflow order-1" in found.stderr
    assert "\x1b" not in found.stderr


def test_markup_of_the_terminal_library_is_plain_text(client: FakeClient) -> None:
    client.value = [execution("[red]order[/red] :smile:")]

    assert "[red]order[/red] :smile:" in run("workflow", "list").stdout


def test_a_long_id_is_not_cut_in_a_pipe(client: FakeClient) -> None:
    client.value = [execution("x" * 250)]

    assert "x" * 250 in run("workflow", "list").stdout


def test_count(client: FakeClient) -> None:
    client.value = WorkflowExecutionCount(7, [])

    assert run("workflow", "count").stdout == "7\n"
    assert json.loads(run("workflow", "count", "-o", "json").stdout) == {"count": 7}


def test_a_count_with_groups(client: FakeClient) -> None:
    groups = [WorkflowExecutionCountAggregationGroup(3, ["Completed"])]
    client.value = WorkflowExecutionCount(3, groups)
    query = ("--query", "GROUP BY ExecutionStatus")

    lines = run("workflow", "count", *query).stdout.splitlines()
    document = json.loads(run("workflow", "count", *query, "-o", "json").stdout)

    assert [line.split() for line in lines] == [["GROUP", "COUNT"], ["Completed", "3"]]
    assert document == {"count": 3, "groups": [{"values": ["Completed"], "count": 3}]}
    assert client.asked[2][2] == "GROUP BY ExecutionStatus"


def test_a_list_with_a_query_shows_the_attributes(client: FakeClient) -> None:
    pair = SearchAttributePair(SearchAttributeKey.for_datetime("Due"), STARTED)
    client.value = [execution(typed_search_attributes=TypedSearchAttributes([pair]))]

    found = run("workflow", "list", "--query", "Due IS NOT NULL", "-o", "json")

    assert json.loads(found.stdout)["typed_search_attributes"] == {"Due": "2026-11-29T10:00:00Z"}
    assert client.asked[2][2] == "Due IS NOT NULL"


def test_search_attributes_of_a_start(client: FakeClient) -> None:
    given = (
        *('Region="eu"', "Amount=12", "Rate=0.5", "Paid=true", 'Tags=["a", "b"]'),
        *('Note:Text="big order"', 'Due:Datetime="2026-11-29T10:00:00Z"'),
    )
    options = [word for one in given for word in ("--search-attribute", one)]

    assert run("workflow", "start", "Order", "-q", "orders", *options).exit_code == 0

    attributes = client.asked[2][2]["search_attributes"]
    assert {
        pair.key.name: (pair.key.indexed_value_type.name, pair.value) for pair in attributes
    } == {
        "Region": ("KEYWORD", "eu"),
        "Amount": ("INT", 12),
        "Rate": ("DOUBLE", 0.5),
        "Paid": ("BOOL", True),
        "Tags": ("KEYWORD_LIST", ["a", "b"]),
        "Note": ("TEXT", "big order"),
        "Due": ("DATETIME", STARTED),
    }


EVENTS = [
    HistoryEvent(1, STARTED, "WorkflowExecutionStarted", {"input": [CONVERTER.to_payload("x")]}),
    HistoryEvent(2, STARTED, "", {}),
]


def test_show_as_lines(client: FakeClient) -> None:
    client.value = EVENTS

    lines = run("workflow", "show", "order-1").stdout.splitlines()

    assert lines[0].split(maxsplit=4) == [
        *("1", "2026-11-29", "10:00:00Z", "WorkflowExecutionStarted"),
        '{"input": ["x"]}',
    ]
    assert "unknown" in lines[1]


def test_show_as_json_lines(client: FakeClient) -> None:
    client.value = EVENTS

    lines = run("workflow", "show", "order-1", "-o", "json").stdout.splitlines()

    assert [json.loads(line)["event_id"] for line in lines] == [1, 2]
    assert json.loads(lines[0])["attributes"] == {"input": ["x"]}


def test_following_waits_without_a_limit(client: FakeClient) -> None:
    client.value = EVENTS

    run("workflow", "show", "order-1")
    run("workflow", "show", "order-1", "--follow")

    asked = [one for one in client.asked if one[0] == "history"]
    assert asked == [("history", False, timedelta(seconds=10)), ("history", True, None)]


def test_namespaces(client: FakeClient) -> None:
    client.value = [
        NamespaceInfo(
            name="default",
            namespace_id="id",
            description="",
            retention=timedelta(days=7),
            conflict_token=1,
        )
    ]

    assert "default" in run("namespace", "list").stdout
    (line,) = run("namespace", "list", "-o", "json").stdout.splitlines()
    assert json.loads(line)["retention"] == timedelta(days=7).total_seconds()


def test_updating_nothing_is_refused(client: FakeClient) -> None:
    assert run("namespace", "update", "default").exit_code == 2
    assert client.asked == []


def test_version() -> None:
    assert run("version").stdout.startswith("perdure ")
    assert json.loads(run("version", "-o", "json").stdout).keys() == {"perdure", "python"}
    assert run("--version").exit_code == 0


def test_what_show_prints_as_json_can_be_replayed(client: FakeClient) -> None:
    client.value = EVENTS

    printed = run("workflow", "show", "order-1", "-o", "json").stdout

    assert WorkflowHistory.from_json("order-1", printed).events == EVENTS

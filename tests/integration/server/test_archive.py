"""Runs leave a real database for a folder or a bucket, are read there by the same calls, and survive kill -9."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
from moto.server import ThreadedMotoServer
from tests.engine_node import running_node
from tests.integration.server.calls import CALL_S, get, start_workflow, until
from tests.integration.server.engine_process import EngineProcess
from tests.integration.server.test_removal import rows_of
from tests.waiting import wait_until

from perdure import activity, workflow
from perdure.client import Client, WorkflowExecution, WorkflowHistory
from perdure.errors import ApplicationError, JobFailedError, RPCError, RPCStatusCode
from perdure.worker import Replayer, Worker

QUICK: dict[str, object] = {"history.retention_pass_every_s": 0.1}


@workflow.defn
class Greet:
    @workflow.run
    async def run(self, name: str) -> str:
        await workflow.sleep(0.01)
        return f"Hello, {name}!"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    s3: Any = boto3.resource("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    s3.create_bucket(Bucket="archive")
    yield "s3://archive/production"
    server.stop()


def make_old(dsn: str, *run_ids: str) -> None:
    """Closed nine days ago: over the retention of a week, and for longer than what waits for company."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "update visibility set close_time = close_time - interval '9 days'"
            " where run_id = any(%s::uuid[]) and close_time is not null",
            (list(run_ids),),
        )


async def archived(client: Client) -> list[WorkflowExecution]:
    return [one async for one in client.list_workflows(archived=True, page_size=2)]


@pytest.mark.parametrize("kind", ["folder", "bucket"])
async def test_a_run_is_read_in_the_archive_as_it_was_in_the_tables(
    kind: str, database_dsn: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"file://{tmp_path}/archive"
    if kind == "bucket":
        url = request.getfixturevalue("bucket")
    async with running_node(database_dsn, {**QUICK, "archive.url": url}) as node:
        client = await Client.connect(node.address)
        async with Worker(client, task_queue="greetings", workflows=[Greet]):
            handle = await client.start_workflow(
                Greet.run,
                "Ada",
                id="greet",
                task_queue="greetings",
                memo={"by": "me"},
                static_summary="says hello",
            )
            assert await handle.result() == "Hello, Ada!"
        run_id = handle.result_run_id or ""
        young = await start_workflow(node.address, "young")
        before = await handle.describe()
        history = await handle.fetch_history()
        make_old(database_dsn, run_id)
        await until(lambda: not rows_of(database_dsn, run_id), CALL_S, "the run has left")

        (listed,) = await archived(client)
        assert (listed.id, listed.run_id, listed.archived) == ("greet", run_id, True)
        assert listed.memo == {"by": "me"}
        for found in (handle, client.get_workflow_handle("greet", run_id=run_id)):
            after = await found.describe()
            assert after.archived
            differing = {"close_time", "archived"}
            assert {**vars(after), **dict.fromkeys(differing)} == (
                {**vars(before), **dict.fromkeys(differing)}
            )
            assert await found.fetch_history() == history
            assert await found.result() == "Hello, Ada!"
            assert await ends(found.query("status")) == ("NOT_FOUND", "WORKFLOW_ARCHIVED")
            assert await ends(found.explain()) == ("NOT_FOUND", "WORKFLOW_ARCHIVED")
            assert await ends(found.reset(event_id=4)) == ("NOT_FOUND", "WORKFLOW_ARCHIVED")
            assert await ends(found.signal("more")) == ("NOT_FOUND", "WORKFLOW_NOT_FOUND")
        found_by_query = client.list_workflows("WorkflowType = 'Greet'", archived=True)
        assert [one.run_id async for one in found_by_query] == [run_id]
        assert not [one async for one in client.list_workflows(id_prefix="you", archived=True)]
        assert rows_of(database_dsn, young)
        with pytest.raises(RPCError) as caught:
            await client.get_workflow_handle("nobody").describe()
        assert caught.value.status is RPCStatusCode.NOT_FOUND
        assert await ends(client.get_workflow_handle("nobody").result()) == (
            *("NOT_FOUND", "WORKFLOW_NOT_FOUND"),
        )
        page = await asyncio.to_thread(get, node.http_address, "/metrics")
        assert 'perdure_archived_total{kind="workflows"} 1' in page[1]
        assert "perdure_archive_lag_seconds 0" in page[1]
        await client.close()


async def ends(call: Awaitable[object]) -> tuple[str, str]:
    """Status and reason of a call that is refused."""
    with pytest.raises(RPCError) as caught:
        await call
    return caught.value.status.name, caught.value.reason or ""


async def test_a_line_of_the_archive_replays(database_dsn: str, tmp_path: Path) -> None:
    """What lies there is for others too: zstd, JSON lines, the SDK's form of a history."""
    import zstandard

    async with running_node(
        database_dsn, {**QUICK, "archive.url": f"file://{tmp_path}/archive"}
    ) as node:
        client = await Client.connect(node.address)
        async with Worker(client, task_queue="greetings", workflows=[Greet]):
            handle = await client.start_workflow(
                Greet.run, "Ada", id="greet", task_queue="greetings"
            )
            await handle.result()
        make_old(database_dsn, handle.result_run_id or "")
        await until(lambda: objects(tmp_path), CALL_S, "the run is archived")
        await client.close()

    (path,) = objects(tmp_path)
    with zstandard.ZstdDecompressor().stream_reader(path.read_bytes()) as reader:
        (line,) = reader.read().decode().splitlines()
    history = WorkflowHistory.from_json("greet", line)
    assert history.run_id == handle.result_run_id
    await Replayer(workflows=[Greet]).replay_workflow(history)


def objects(tmp_path: Path) -> list[Path]:
    """Of runs, without what lists and finds them."""
    paths = (tmp_path / "archive").glob("*/workflows/*-*-*/*.jsonl.zst")
    return sorted(paths)


@activity.defn
async def shout(text: str) -> str:
    if text == "no":
        raise ApplicationError("not that", type="Refused", non_retryable=True)
    return text.upper()


@pytest.mark.parametrize("kind", ["folder", "bucket"])
async def test_a_job_is_read_in_the_archive_as_it_was_in_the_tables(
    kind: str, database_dsn: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"file://{tmp_path}/archive"
    if kind == "bucket":
        url = request.getfixturevalue("bucket")
    async with running_node(database_dsn, {**QUICK, "archive.url": url}) as node:
        client = await Client.connect(node.address)
        async with Worker(client, task_queue="loud", activities=[shout]):
            done = await client.jobs.create(shout, "hello", queue="loud", user_id="ada")
            assert await done.result() == "HELLO"
            failed = await client.jobs.create(shout, "no", queue="loud")
            with pytest.raises(JobFailedError):
                await failed.result()
        before = {job.id: await job.describe() for job in (done, failed)}
        with psycopg.connect(database_dsn) as connection:
            connection.execute("update job_runs set closed_at = closed_at - interval '9 days'")
        await until(lambda: not jobs_in_tables(database_dsn), CALL_S, "the jobs have left")

        for job in (done, failed):
            after = await job.describe()
            assert after.archived
            differing = dict.fromkeys(("close_time", "archived"))
            assert {**vars(after), **differing} == {**vars(before[job.id]), **differing}
        assert await client.jobs.get(done.id).result() == "HELLO"
        with pytest.raises(JobFailedError) as told:
            await client.jobs.get(failed.id).result()
        assert isinstance(told.value.cause, ApplicationError)
        assert told.value.cause.type == "Refused"
        assert [one async for one in client.jobs.list()] == []
        found = [one async for one in client.jobs.list(archived=True, limit=10)]
        assert sorted([one.id for one in found]) == sorted(before)
        assert all([one.archived for one in found])
        ada = [one.id async for one in client.jobs.list(archived=True, user_id="ada")]
        assert ada == [done.id]
        refused = client.jobs.list(archived=True, failure_type="Refused")
        assert [one.failure_message async for one in refused] == ["not that"]
        with pytest.raises(RPCError) as caught:
            _ = [one async for one in client.jobs.list(archived=True, oldest_first=True)]
        assert caught.value.status is RPCStatusCode.INVALID_ARGUMENT
        await client.close()


def jobs_in_tables(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        counted = connection.execute("select count(*) from job_runs").fetchone()
    assert counted is not None
    return int(counted[0])


async def test_without_an_archive_old_runs_are_deleted_and_none_are_listed(
    database_dsn: str,
) -> None:
    async with running_node(database_dsn, QUICK) as node:
        client = await Client.connect(node.address)
        with pytest.raises(RPCError) as caught:
            await archived(client)
        assert caught.value.reason == "NO_ARCHIVE"
        assert caught.value.status is RPCStatusCode.FAILED_PRECONDITION
        await client.close()


async def test_a_namespace_can_say_no(database_dsn: str, tmp_path: Path) -> None:
    async with running_node(
        database_dsn, {**QUICK, "archive.url": f"file://{tmp_path}/archive"}
    ) as node:
        client = await Client.connect(node.address)
        info = await client.operator.describe_namespace()
        assert info.archive
        info = await client.operator.update_namespace(
            "default", conflict_token=info.conflict_token, archive=False
        )
        assert not info.archive
        run_id = await start_workflow(node.address, "order")
        await client.get_workflow_handle("order").terminate()
        make_old(database_dsn, run_id)
        await until(lambda: not rows_of(database_dsn, run_id), CALL_S, "the run is deleted")
        assert await archived(client) == []
        await client.close()


async def test_kill_9_between_put_and_removal_loses_nothing(
    database_dsn: str, tmp_path: Path
) -> None:
    """The removal waits for a row that the test holds; the engine dies meanwhile."""
    settings = {
        "PERDURE_DATABASE_URL": database_dsn,
        "PERDURE_DATABASE_ALLOW_UNSAFE": "true",
        "PERDURE_HISTORY_RETENTION_PASS_EVERY_S": "0.1",
        "PERDURE_ARCHIVE_URL": f"file://{tmp_path}/archive",
    }
    names = [f"order-{number}" for number in range(3)]
    ports = ("--grpc-port", "0", "--http-port", "0")
    with EngineProcess("server", *ports, more=settings) as engine:
        address = engine.grpc_address()
        client = await Client.connect(address)
        run_ids = [await start_workflow(address, name) for name in names]
        for name in names:
            await client.get_workflow_handle(name).terminate()
        holder = psycopg.connect(database_dsn)
        holder.execute("select 1 from executions for update")
        make_old(database_dsn, *run_ids)
        await until(lambda: waits_for_rows(database_dsn), CALL_S, "a removal waits")
        assert objects(tmp_path)
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
        # nobody is left who wants the removal; the database does not know that yet
        end_sessions(database_dsn, holder.info.backend_pid)
        holder.close()
        await client.close()
    assert all([rows_of(database_dsn, run_id) for run_id in run_ids]), "they are in both places"

    with EngineProcess("server", *ports, more=settings) as engine:
        address = engine.grpc_address()
        await asyncio.to_thread(
            wait_until,
            lambda: not any([rows_of(database_dsn, run_id) for run_id in run_ids]),
            3 * CALL_S,
            "they have left the tables",
        )
        client = await Client.connect(address)
        assert sorted([one.run_id for one in await archived(client)]) == sorted(run_ids)
        for name, run_id in zip(names, run_ids, strict=True):
            history = await client.get_workflow_handle(name, run_id=run_id).fetch_history()
            assert history.events[-1].event_type == "WorkflowExecutionTerminated"
        await client.close()


def waits_for_rows(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        waiting = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock'"
        ).fetchone()
    assert waiting is not None
    return bool(waiting[0])


def end_sessions(dsn: str, but_pid: int) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and pid <> %s",
            (but_pid,),
        )

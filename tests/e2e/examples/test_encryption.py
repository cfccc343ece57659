"""sdk/examples/encryption"""

from __future__ import annotations

from tests.e2e.command_line import CommandLine
from tests.e2e.examples.loading import EXAMPLES, load_example

from perdure.codecs import KeyRing
from perdure.testing import WorkflowEnvironment
from perdure.worker import Replayer

encryption = load_example("encryption/encryption.py")


async def test_its_history_is_unreadable_and_replays_with_the_key() -> None:
    converter = encryption.data_converter(KeyRing("k", {"k": b"k" * 32}))
    async with await WorkflowEnvironment.start_time_skipping(data_converter=converter) as env:
        async with encryption.make_worker(env.client):
            handle = await encryption.pay(env.client, "payment", "4111-1111", 1999)
            assert await handle.result() == "19.99 from card 4111-1111"
        history = await handle.fetch_history()

    assert "4111" not in history.to_json()
    with_key = Replayer(workflows=[encryption.Payment], data_converter=converter)
    await with_key.replay_workflow(history)
    without = await Replayer(workflows=[encryption.Payment]).replay_workflow(
        history, raise_on_replay_failure=False
    )
    assert "this side has no EncryptionCodec" in str(without.replay_failure)


async def test_what_each_party_sees(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client

    with_key, rotated, without = await encryption.run(
        client.core.connection.target, "payment", client.namespace
    )

    assert with_key == "with the key: 19.99 from card 4111-1111"
    assert rotated == "after the rotation: 19.99 from card 4111-1111"
    assert "it is encrypted, and this side has no EncryptionCodec" in without


def test_it_runs_with_one_command(dev: CommandLine) -> None:
    program = dev.folder / "encryption.py"
    program.write_text((EXAMPLES / "encryption/encryption.py").read_text("utf-8"), "utf-8")

    assert dev.start_program(program).wait(60) == 0

    lines = program.with_suffix(".log").read_text("utf-8").splitlines()
    assert lines[0] == "with the key: 19.99 from card 4111-1111"
    assert len(lines) == 3

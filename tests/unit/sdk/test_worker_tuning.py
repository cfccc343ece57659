"""What a worker's process may change for itself."""

import subprocess
import sys

TUNED = """
import gc
before = gc.get_threshold()
import perdure.worker
assert gc.get_threshold() == before, "importing changes nothing"
assert gc.get_freeze_count() == 0
perdure.worker.tune_garbage_collector()
assert gc.isenabled()
assert gc.get_threshold()[0] > before[0]
assert gc.get_freeze_count() > 1_000
"""

POLLER = """
import os
os.environ.pop("GRPC_EXPERIMENTS", None)
import perdure.worker
assert "GRPC_EXPERIMENTS" not in os.environ, "importing changes nothing"
perdure.worker.tune_grpc()
assert os.environ["GRPC_EXPERIMENTS"] == "-event_engine_client,-event_engine_listener"
os.environ["GRPC_EXPERIMENTS"] = "mine"
perdure.worker.tune_grpc()
assert os.environ["GRPC_EXPERIMENTS"] == "mine"
"""
# What gRPC says of a name it does not know comes on stderr.
KNOWN = """
import asyncio
import grpc.aio
import perdure.worker
perdure.worker.tune_grpc()

async def connect() -> None:
    await grpc.aio.insecure_channel("127.0.0.1:1").close()

asyncio.run(connect())
"""


def test_the_garbage_collector_is_tuned_only_when_asked() -> None:
    subprocess.run([sys.executable, "-P", "-c", TUNED], check=True)  # our own text


def test_the_poller_of_grpc_is_chosen_only_when_asked_and_known_to_grpc() -> None:
    subprocess.run([sys.executable, "-P", "-c", POLLER], check=True)  # our own text
    said = subprocess.run([sys.executable, "-P", "-c", KNOWN], check=True, capture_output=True)
    assert b"Unknown experiment" not in said.stderr

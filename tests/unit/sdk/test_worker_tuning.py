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


def test_the_garbage_collector_is_tuned_only_when_asked() -> None:
    subprocess.run([sys.executable, "-P", "-c", TUNED], check=True)  # our own text

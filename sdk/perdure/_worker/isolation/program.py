"""The program of a worker, started again for one task.

So the task finds what its worker has: what the program's modules define, and what its main function
has made before it enters the worker (settings, pools, objects whose methods are activities).
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import msgspec

from perdure._wire.tasks import PolledTask, PolledWorkflowTask
from perdure._worker.isolation.bootstrap import die_with_parent
from perdure._worker.recipe import Code, Recipe

VARIABLE = "PERDURE_ISOLATED_TASK"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a process for one task is to know besides what it runs."""

    worker_pid: int
    stacks_path: str
    is_traced: bool


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which worker of a program is meant: one that could have polled the task."""

    namespace: str
    task_queue: str
    deployment_name: str
    build_id: str
    is_workflow: bool
    type_name: str

    @classmethod
    def of(cls, recipe: Recipe, polled: PolledTask) -> Wanted:
        if isinstance(polled, PolledWorkflowTask):
            is_workflow, type_name = True, polled.workflow_type
        else:
            is_workflow, type_name = False, polled.activity_type
        return cls(
            namespace=recipe.identity.namespace,
            task_queue=recipe.task_queue,
            deployment_name=recipe.identity.deployment_name,
            build_id=recipe.identity.build_id,
            is_workflow=is_workflow,
            type_name=type_name,
        )

    def is_met_by(self, code: Code) -> bool:
        identity, queue = code.recipe.identity, code.recipe.task_queue
        return (
            (identity.namespace, queue) == (self.namespace, self.task_queue)
            and identity.deployment_name == self.deployment_name
            and identity.build_id == self.build_id
            and code.knows(self.type_name, is_workflow=self.is_workflow)
        )


class Summons(msgspec.Struct, frozen=True, kw_only=True):
    """What the program is told by its environment: it is there for one task, which comes by a socket."""

    descriptor: int
    wanted: Wanted
    order: Order


def command_of(program: Sequence[str] | None) -> list[str]:
    """`program`: what the worker was told; None: what this process was started with. Empty: it cannot
    be started again."""
    if os.name != "posix":
        return []
    if program is not None:
        return list(program)
    arguments = sys.orig_argv[1:]
    is_session = hasattr(sys, "ps1") or "IPython" in sys.modules or "-" in arguments
    # The program's main thread would go on beside the task, and end its process.
    is_beside_main = threading.current_thread() is not threading.main_thread()
    # What this process was started with is what made the other one, or only to be read by this one.
    is_made_by_another = multiprocessing.parent_process() is not None
    is_none = is_session or is_beside_main or is_made_by_another or _is_run_of_tests()
    if not arguments or is_none or getattr(sys, "frozen", False):
        return []
    return [sys.executable, *arguments]


def _is_run_of_tests() -> bool:
    """It has workers, and is no program that could be started for one of them."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    is_unittest = spec is not None and spec.name == "unittest.__main__"
    # A script of tests names it. That it is imported says nothing: libraries do that, for its mocks.
    return "pytest" in sys.modules or is_unittest or hasattr(main, "unittest")


class ProgramProcess:
    """Has what the watcher asks of a process of `multiprocessing`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def join(self, timeout: float | None = None) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        pass


def start(
    command: Sequence[str], wanted: Wanted, order: Order
) -> tuple[ProgramProcess, Connection]:
    """In the folder and with the environment that this process has begun with. Raises OSError."""
    ours, its = socket.socketpair()
    with its:
        try:
            summons = Summons(descriptor=its.fileno(), wanted=wanted, order=order)
            environment = {**_begun_with, VARIABLE: msgspec.json.encode(summons).decode()}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                cwd=_begun_in,
                env=environment,
                pass_fds=(its.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return ProgramProcess(process), Connection(ours.detach())


# --- in the program that was started again --------------------------------------------------------


def taken_from(environment: MutableMapping[str, str]) -> Summons | None:
    """What the program starts itself is not meant, so that the variable goes."""
    text = environment.pop(VARIABLE, None)
    if text is None:
        return None
    summons = msgspec.json.decode(text, type=Summons)
    # Closed by somebody between us and the worker: then nobody waits for us.
    with suppress(OSError):
        os.set_inheritable(summons.descriptor, False)
    if os.getppid() == summons.order.worker_pid:
        die_with_parent()
    return summons


def _folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


summons = taken_from(os.environ)
"""None: an ordinary process."""
_begun_in, _begun_with = _folder(), dict(os.environ)

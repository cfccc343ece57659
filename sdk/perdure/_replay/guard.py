"""Keeps workflow code from what another replay would see differently, or not at all.

`install` wraps the functions listed below, once per process. A wrapper asks which event loop runs
in its thread: only under a guarded workflow loop it refuses, with the line and what to use instead;
anywhere else it passes on, for about 0.1 µs. So the guard costs a workflow task nothing.

This catches mistakes, it is no sandbox: code that wants to get around it can. Rejected: importing
the user's modules anew for each run (memory, time, and libraries that do not survive it).

Logging, imports and debuggers look at clocks and files for their own ends: what they do, or have
done by libraries hooked into them, is let through.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import logging
import sys
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType
from typing import Any

from perdure._replay.callsite import CallSite, frame_above, is_users
from perdure._replay.loop import DeterministicLoop
from perdure.errors import RestrictedWorkflowAccessError

logger = logging.getLogger(__name__)

_CLOCK = "use workflow.now() or workflow.time()"
_RANDOM = "use workflow.random()"
_ENTROPY = "use workflow.random() or workflow.uuid4()"
_OUTSIDE = "do it in an activity"

# module, function or Class.method names, what to use instead
_GUARDED: tuple[tuple[str, str, str], ...] = (
    ("time", "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns", _CLOCK),
    ("time", "process_time process_time_ns", _CLOCK),
    ("time", "sleep", "use await workflow.sleep()"),
    (
        "random",
        "betavariate choice choices expovariate gammavariate gauss getrandbits lognormvariate "
        "normalvariate paretovariate randbytes randint random randrange sample seed shuffle "
        "triangular uniform vonmisesvariate weibullvariate",
        _RANDOM,
    ),
    ("uuid", "uuid1 uuid4", "use workflow.uuid4()"),
    ("uuid", "uuid6 uuid7 uuid8", "use workflow.uuid7()"),  # of Python 3.14
    ("os", "urandom", _ENTROPY),
    ("secrets", "choice randbelow randbits token_bytes token_hex token_urlsafe", _ENTROPY),
    ("builtins", "open", _OUTSIDE),
    ("io", "open", _OUTSIDE),
    ("os", "fork system", _OUTSIDE),
    ("socket", "socket.__init__ getaddrinfo", _OUTSIDE),
    ("subprocess", "Popen.__init__", _OUTSIDE),
    ("threading", "Thread.start", "use asyncio tasks, or do it in an activity"),
)
# Types written in C, whose methods can only be replaced in the dict behind the type.
_GUARDED_IN_C: tuple[tuple[str, str, str], ...] = (
    ("datetime", "datetime.now datetime.utcnow date.today", _CLOCK),
)
_TRUSTED = frozenset(
    {"bdb", "debugpy", "importlib", "linecache", "logging", "loguru", "pdb", "pydevd"}
    | {"sentry_sdk", "structlog", "traceback", "warnings"}
)

_guarded_by_original: dict[int, tuple[Any, Callable[..., Any]]] = {}


def install() -> None:
    """Wraps everything listed. Doing it again is fine."""
    if _guarded_by_original:
        return
    for module_name, names, fix in _GUARDED:
        module = importlib.import_module(module_name)
        for name in names.split():
            _wrap(module, name, f"{module_name}.{name}()", fix)
    for module_name, names, fix in _GUARDED_IN_C:
        module = importlib.import_module(module_name)
        for name in names.split():
            _wrap_in_c(module, name, f"{module_name}.{name}()", fix)


def guard_workflows(workflows: Iterable[type]) -> None:
    """Wraps what workflow code must not call, in the modules of these workflows too."""
    install()
    for workflow in workflows:
        cover(sys.modules[workflow.__module__])


def cover(module: ModuleType) -> None:
    """Gives a module of workflows the wrappers for what it imported by name before `install`."""
    for name, value in list(vars(module).items()):
        known = _guarded_by_original.get(id(value))
        if known is not None:
            setattr(module, name, known[1])


def _wrap(module: ModuleType, name: str, shown: str, fix: str) -> None:
    owner: Any = module
    *classes, attribute = name.split(".")
    for one in classes:
        owner = getattr(owner, one)
    original = getattr(owner, attribute, None)
    if original is None:  # not on this platform
        return
    known = _guarded_by_original.get(id(original))  # io.open is builtins.open
    guarded = known[1] if known else _guard(original, shown.replace(".__init__", ""), fix)
    # The original is kept alive, or another object could take its id.
    _guarded_by_original[id(original)] = (original, guarded)
    setattr(owner, attribute, guarded)


def _guard(original: Callable[..., Any], shown: str, fix: str) -> Callable[..., Any]:
    running_loop = asyncio._get_running_loop

    @functools.wraps(original)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        loop = running_loop()
        if type(loop) is DeterministicLoop and loop.guarded:
            _refuse_users(shown, fix)
        return original(*args, **kwargs)

    return guarded


def _wrap_in_c(module: ModuleType, name: str, shown: str, fix: str) -> None:
    class_name, attribute = name.split(".")
    kind: type = getattr(module, class_name)
    if attribute not in vars(kind):
        return
    method = vars(kind)[attribute]

    def bound(cls: type, *args: Any, **kwargs: Any) -> Any:
        return method.__get__(None, cls)(*args, **kwargs)

    guarded = classmethod(_guard(bound, shown, fix))
    try:
        import ctypes

        # The dict itself: the mapping that Python shows of it cannot be written to.
        (namespace,) = gc.get_referents(vars(kind))
        namespace[attribute] = guarded
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    except Exception:
        # Another Python than CPython: one mistake fewer is caught.
        logger.debug("%s is not guarded here", shown, exc_info=True)


def _refuse_users(shown: str, fix: str) -> None:
    """Raises unless the call is made by, or on behalf of, something that is trusted."""
    frame: FrameType | None = frame_above(2)
    site: CallSite | None = None
    while frame is not None:
        root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if root == "perdure":
            break
        if root in _TRUSTED:
            return
        if site is None and is_users(frame.f_code.co_filename):
            site = CallSite(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    if site is not None:
        raise RestrictedWorkflowAccessError(shown, fix, str(site))

"""What ends more than the code that it meets.

Everything else that an activity's or a job's code raises is that attempt's failure, `sys.exit` in a library too: it
must not take along what else its worker has in hand.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from functools import partial
from types import CodeType


def is_of_the_process(error: BaseException) -> bool:
    """Ctrl-C, the end of the loop, or a signal's handler that calls `sys.exit`: it runs in the middle of whatever code
    the main thread is in."""
    if isinstance(error, SystemExit):
        handlers = _codes_of_handlers()
        return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


def _codes_of_handlers() -> set[CodeType]:
    """Of those that are installed: one that has put another in its place before it exits is not known any more."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [_code_of(handler) for handler in handlers if callable(handler)]
    return {code for code in codes if code is not None}


def _code_of(handler: Callable[..., object]) -> CodeType | None:
    """None: it is not written in Python."""
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = getattr(type(handler).__call__, "__func__", type(handler).__call__)
    return getattr(function, "__code__", None)

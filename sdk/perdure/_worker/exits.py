"""What ends more than the code that it meets.

Everything else that an activity's or a job's code raises is that attempt's failure, `sys.exit` in a library too: it
must not take along what else its worker has in hand.
"""

from __future__ import annotations

import signal
import traceback
from types import CodeType


def is_of_the_process(error: BaseException) -> bool:
    """Ctrl-C, the end of the loop, or a signal's handler that calls `sys.exit`: it runs in the middle of whatever code
    the main thread is in."""
    if isinstance(error, SystemExit):
        handlers = _codes_of_handlers()
        return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


def _codes_of_handlers() -> set[CodeType]:
    """Of the handlers that are functions or methods."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    functions = [getattr(handler, "__func__", handler) for handler in handlers]
    codes = [getattr(function, "__code__", None) for function in functions]
    return {code for code in codes if code is not None}

"""Becomes a command that does not outlive its parent. A program: standard library only.

    python -I -S tied.py PARENT_PID COMMAND [ARGUMENT...]

The kernel sends the command SIGTERM when the thread that started it ends, kill -9 included. That
survives the exec, and needs no code between fork and exec in a parent that has threads. Where there
is no such thing the command runs all the same: only a killed parent leaves it behind.
"""

import ctypes
import os
import signal
import sys

# linux/prctl.h
PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit("the parent has ended")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()

"""Tasks that have a process to themselves: those that have taken workers down, and poisoned ones.

Such a task never runs where others do. Its worker stays its holder: it lists the task in its
heartbeats, speaks to the engine, and watches the process, which only has a pipe to the worker and
never touches gRPC. What ends that process before it has handed up what the task came to is a crash
of that task, and of nobody else.

On the worker's side: `wards.py` takes the tasks in, `ward.py` is one of them, `launcher.py` starts
processes, `child.py` hears and watches one, `vitals.py` and `report.py` say what was seen of it.
In the process: `bootstrap.py` prepares it, `room.py` runs the task with the parts of every worker,
`line.py` is its end of the pipe. `messages.py` is what travels.
"""

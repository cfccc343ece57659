"""Tasks that have a process to themselves: those that have taken workers down, and poisoned ones.

Such a task never runs where others do. Its worker stays its holder: it lists the task in its
heartbeats, speaks to the engine, and watches the process, which only has a pipe to the worker and
never touches gRPC. What ends that process before it has handed up what the task came to is a crash
of that task, and of nobody else.

On the worker's side: `surgical.py` polls for poisoned tasks, `wards.py` takes in what runs alone,
`ward.py` is one of them, `launcher.py` starts processes, `child.py` hears and watches one, and
`vitals.py`, `stacks.py` and `report.py` say what was seen of it.
In the process: `bootstrap.py` prepares it, `room.py` runs the task with what every worker runs its
tasks with, `line.py` is its end of the pipe, `tracing.py` says the steps of poisoned tasks,
`leaving.py` ends it.
On both: `program.py` starts the worker's program again, and tells it there what for; `messages.py`
and `problems.py` are what travels.
"""

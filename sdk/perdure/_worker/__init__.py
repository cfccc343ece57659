"""What stands behind `perdure.worker`: polls, slots, runners of both kinds of task, completions,
and the guard thread that keeps the leases while the event loop is busy."""

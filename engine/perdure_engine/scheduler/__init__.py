"""When something is to happen: cron schedules, and the schedules of semantics §11."""

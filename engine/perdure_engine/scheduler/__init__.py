"""When something is to happen: cron schedules, and (to come) the schedules of semantics §11."""

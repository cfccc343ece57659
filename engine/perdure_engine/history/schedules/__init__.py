"""A shard's schedules: beside its runs and jobs, in the same inbox, step and statement."""

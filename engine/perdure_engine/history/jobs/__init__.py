"""The jobs of a shard, beside its runs in the same actor: same inbox, step, statement and publication. What a job costs
here is counted in microseconds, so everything goes in lists, and nothing waits for one job alone."""

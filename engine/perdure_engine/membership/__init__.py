"""Which engine nodes live, and which of them should own which shard."""

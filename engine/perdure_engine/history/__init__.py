"""Room: owns shards. A shard decides, has it saved, publishes. All that is true is here."""

"""Frontend: checks a request, finds the shard, forwards, answers. Keeps no state but caches."""

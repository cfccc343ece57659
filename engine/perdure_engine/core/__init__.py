"""Pure decisions: no await, clock, randomness, log or I/O. Everything else stands around this."""

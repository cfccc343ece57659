"""One small automaton for each kind of command. Its legal moves stand in its table."""

"""OTLP: the engine's figures, sent to a collector."""

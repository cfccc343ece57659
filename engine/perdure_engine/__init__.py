"""The engine: rooms that talk through ports. Start at ARCHITECTURE.md."""

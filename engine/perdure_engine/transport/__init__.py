"""Edges: the only engine code that speaks a protocol."""

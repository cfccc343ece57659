"""Replay: history in, commands out. Pure: no clock, no network, no protobuf."""

"""Messages to our own types and back. Nothing here decides; each module is one subject.

Towards the wire, parts of a message are plain dicts of its fields, and one constructor at the top
turns the whole tree into a message: a nested message object costs 0.3 µs and a copy, a dict nearly
nothing (FLOOR.md §C: building protobuf objects is the cost, not the wire).
"""

"""What a schedule is: its times, what it starts, its policies, and what the engine tells of it.

Below the wire, which turns all of it into messages and back. `perdure.schedule` is its public face.
"""

"""The contract's messages as JSON, as the archive keeps them and the SDK reads and writes them.

A field has its name, a choice its name too, a message is an object; what is not set is left out. A payload is
{"encoding", "data" in base64, "metadata"?}: what it holds is not looked into.
"""

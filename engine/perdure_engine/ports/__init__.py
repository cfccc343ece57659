"""The doors between rooms: Protocols and the messages that pass through them."""

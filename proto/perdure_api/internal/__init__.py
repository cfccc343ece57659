"""What the nodes of a cluster say to each other: no part of the public API."""

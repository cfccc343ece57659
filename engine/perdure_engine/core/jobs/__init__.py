"""Jobs: what a job run is, what may happen to it, and what that changes. Pure, as all of core."""

"""Pairs waiting tasks with waiting polls. A cache over saved tasks: may be lost at any time."""

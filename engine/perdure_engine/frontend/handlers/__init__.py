"""One file per verb of the API, named like it."""

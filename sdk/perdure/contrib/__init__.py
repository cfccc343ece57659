"""Modules that stand where programs written for Temporal's SDK look for them."""

"""Perdure's SDK: `from perdure import workflow, activity`, `from perdure.client import Client`."""

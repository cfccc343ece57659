"""The REST API: jobs, schedules and workflows over HTTP with JSON, by the same handlers as gRPC.

An operation is an entry of a table (`table.py`): its path, the types of its query, body and answers, and a function.
Requests are decoded by those types and the OpenAPI document is made of them, so that the one cannot say what the
other does not do. Rejections are problem+json (RFC 9457).
"""

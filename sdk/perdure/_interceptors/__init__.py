"""What a worker's interceptors are made of; `perdure.worker` shows it to users.

A package of its own because both sides need it: replay, which runs workflows through the inbound
ones, and the worker, which makes them. What does the work behind the last interceptor stays where
the work is.
"""

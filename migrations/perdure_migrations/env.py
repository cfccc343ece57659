"""Alembic's entry point; `runner` brings the connection, in autocommit."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    # Each step commits by itself: see the package's theory of operation.
    transactional_ddl=False,
)
context.run_migrations()

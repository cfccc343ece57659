"""The fixtures that every test may ask for."""

from tests.fixtures_postgres import database_dsn, postgres_server, scratch_dir, template_database

__all__ = ["database_dsn", "postgres_server", "scratch_dir", "template_database"]

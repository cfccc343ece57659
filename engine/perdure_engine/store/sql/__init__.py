"""The store on CockroachDB or PostgreSQL. Everything that says SQL is in this package."""

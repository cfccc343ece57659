"""Room: the only place with SQL. `sql` and `memory` stand behind the same ports."""

"""Every SQL text of the repository against the allow-list."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from pglast import parse_sql
from tests.sql_lint import registry
from tests.sql_lint.linter import declared_keys, lint, lint_migration

from perdure_migrations.steps import Product

ROOT = Path(__file__).parents[2]
SQL_STORE = ROOT / "engine/perdure_engine/store/sql"
ENGINE = registry.engine_statements()
STEPS = dict(registry.migration_steps())
KEYS = declared_keys(registry.portable_steps())
# Sorted after they are found, since the close time has no index (store.sql.visibility says why).
SORTED = {"m": [("close_order", "start_time", "run_id")]}

# What a step for one product alone may be.
POSTGRES_STEP = re.compile(
    r"alter table [a-z_]+ set \(fillfactor = [0-9]+\)|alter index [a-z_]+ set \(fastupdate = off\)"
)
COCKROACH_STEP = re.compile(r"alter table [a-z_]+ configure zone using gc\.ttlseconds = [0-9]+")

SQL = re.compile(r"\s*(select|insert|update|delete|with|create|alter|drop)\s", re.IGNORECASE)


@pytest.mark.parametrize("name", ENGINE)
def test_statements_of_the_engine(name: str) -> None:
    keys = KEYS | SORTED if name.startswith("visibility.list_closed") else KEYS

    assert lint(ENGINE[name], keys) == []


@pytest.mark.parametrize("name", registry.lock_statements())
def test_statements_of_the_migration_lock(name: str) -> None:
    text = registry.lock_statements()[name]

    assert (lint_migration(text) if name == "create" else lint(text)) == []


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.only is None])
def test_migration_steps(name: str) -> None:
    assert lint_migration(STEPS[name].sql) == []


def test_steps_for_one_product() -> None:
    for sql in registry.steps_of(Product.POSTGRESQL):
        assert POSTGRES_STEP.fullmatch(sql)
    for sql in registry.steps_of(Product.COCKROACHDB):
        assert COCKROACH_STEP.fullmatch(sql)


def test_statements_for_postgres_alone_parse() -> None:
    for text in registry.postgres_statements().values():
        assert len(parse_sql(text)) == 1


def test_the_registry_is_complete() -> None:
    """A text of the store that looks like SQL is one of STATEMENTS, or a part of one."""
    whole = "\n".join([*ENGINE.values(), *registry.postgres_statements().values()])
    missed = []
    for path in sorted((ROOT / "engine/perdure_engine").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and SQL.match(node.value)
                and " from " in node.value + " "
                and "\n" in node.value
                and node.value not in whole
            ):
                missed.append(f"{path.name}:{node.lineno}")

    assert missed == []


def test_no_statement_finds_rows_to_update() -> None:
    """Upserts only: at SERIALIZABLE an UPDATE locks the index pages that it read, and unrelated
    shards then abort each other. (The allow-list refuses the node; this says why, and looks at the
    words.)
    """
    texts = {**ENGINE, **registry.lock_statements()}
    updates = {name for name, text in texts.items() if re.search(r"(?<!do )\bupdate\b", text)}

    assert updates == set()


def test_a_table_is_named_in_its_own_module_only() -> None:
    """Rule 18: one module per table. Others take the piece of text that they need from there."""
    tables = set(KEYS) & {path.stem for path in SQL_STORE.glob("*.py")}
    named = re.compile(rf"\b(?:from|join|into|using) ({'|'.join(sorted(tables))})\b")
    found = {
        (path.stem, table)
        for path in SQL_STORE.glob("*.py")
        for table in named.findall(path.read_text(encoding="utf-8"))
    }

    assert len(tables) == 24
    assert {(module, table) for module, table in found if module != table} == set()

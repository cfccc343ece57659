"""Every SQL text that Perdure sends, found by walking the packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import perdure_engine.store.sql
import perdure_migrations.versions
from perdure_migrations import lock
from perdure_migrations.steps import Product, Step


def engine_statements() -> dict[str, str]:
    """The STATEMENTS of each module of the SQL store, by name."""
    found: dict[str, str] = {}
    for module in _modules(perdure_engine.store.sql):
        for name, text in getattr(module, "STATEMENTS", {}).items():
            assert name not in found, name
            found[name] = text
    return found


def postgres_statements() -> dict[str, str]:
    """Those that are never sent to CockroachDB."""
    return {
        name: text
        for module in _modules(perdure_engine.store.sql)
        for name, text in getattr(module, "STATEMENTS_POSTGRES", {}).items()
    }


def lock_statements() -> dict[str, str]:
    return dict(lock.STATEMENTS)


def migration_steps() -> list[tuple[str, Step]]:
    return [
        (f"{module.__name__.rsplit('.', 1)[-1]}[{number}]", step)
        for module in _modules(perdure_migrations.versions)
        for number, step in enumerate(module.STEPS)
    ]


def portable_steps() -> Iterator[str]:
    return (step.sql for _, step in migration_steps() if step.only is None)


def steps_of(product: Product) -> list[str]:
    return [step.sql for _, step in migration_steps() if step.only is product]


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        yield importlib.import_module(f"{package.__name__}.{info.name}")

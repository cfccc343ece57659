"""What comes from outside or from the store is never code: nothing that could make it so is even imported (bug report
66, reliability §5)."""

import ast
from collections.abc import Iterator

MODULES = frozenset(("pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "joblib"))
FUNCTIONS = frozenset(("eval", "exec"))
LOADERS = frozenset(
    (("yaml", "load"), ("yaml", "unsafe_load"), ("pickle", "loads"), ("pickle", "load"))
)

# "path" -> why it may. It must still not load what it has not made itself.
EXCEPTIONS = {
    "sdk/perdure/_worker/processes.py": "asks whether a function can go to a process of the worker's own pool",
}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def loads(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS:
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in LOADERS:
                yield f"{module}.{name}"


def test_bug_report_66_nothing_is_ever_unpickled(modules: dict[str, str]) -> None:
    trees = {path: ast.parse(text) for path, text in modules.items()}
    importing = {path for path, tree in trees.items() if MODULES.intersection(imported(tree))}
    assert importing == set(EXCEPTIONS), "an exception that is no longer needed fails too"
    assert {path: found for path, tree in trees.items() if (found := [*loads(tree)])} == {}

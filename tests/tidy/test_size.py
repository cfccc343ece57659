"""Functions that fit a screen, modules of one subject: long code bases differ in the tail only."""

import ast
from collections.abc import Iterator

# 60 lines is long for a function and 400 for a module (style); the cap leaves room to finish a
# thought, not to begin another.
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 520

# "path" or "path::function" -> why it may be longer. One that is no longer needed fails too.
EXCEPTIONS: dict[str, str] = {}


def functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def too_long(modules: dict[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, text in modules.items():
        lines = text.count("\n")
        if lines > MODULE_LINES_MAX:
            found[path] = lines
        for name, lines in functions(text):
            if lines > FUNCTION_LINES_MAX:
                found[f"{path}::{name}"] = lines
    return found


def test_functions_and_modules_are_short(modules: dict[str, str]) -> None:
    found = too_long(modules)

    assert {place: lines for place, lines in found.items() if place not in EXCEPTIONS} == {}


def test_each_exception_is_needed_and_has_a_reason(modules: dict[str, str]) -> None:
    found = too_long(modules)

    assert [place for place in EXCEPTIONS if place not in found] == []
    assert [place for place, reason in EXCEPTIONS.items() if not reason.strip()] == []


def test_the_measure_sees_a_long_function_and_a_long_module() -> None:
    body = "    pass\n" * FUNCTION_LINES_MAX
    long_module = "x = 1\n" * (MODULE_LINES_MAX + 1)

    assert too_long({"a.py": f"def f():\n{body}", "b.py": long_module}) == {
        "a.py::f": FUNCTION_LINES_MAX + 1,
        "b.py": MODULE_LINES_MAX + 1,
    }

"""The tree is what the prose says it is: folders, decisions, the map, the README's commands."""

import re
from pathlib import Path

README_WORKFLOW_LINES_MAX = 25


def make_targets(root: Path) -> set[str]:
    text = (root / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, flags=re.MULTILINE))


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_four_source_folders_are_not_packages(root: Path) -> None:
    folders = ("proto", "sdk", "engine", "migrations")

    assert [name for name in folders if (root / name / "__init__.py").exists()] == []


def test_decisions_are_numbered_without_a_gap(root: Path) -> None:
    names = sorted(path.name for path in (root / "engine/adr").glob("*.md"))

    assert names, "no decision is written down"
    assert [name[:5] for name in names] == [f"{number:04}-" for number in range(1, len(names) + 1)]


def test_the_commands_of_the_readme_exist(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", "\n".join(code_blocks(readme, "sh"))))
    named |= set(re.findall(r"`make ([a-z][a-z-]*)", readme))

    assert {"demo", "test"} <= named
    assert named - make_targets(root) == set()


def test_the_workflow_of_the_readme_is_short_and_compiles(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    (example,) = code_blocks(readme, "python")

    compile(example, "README.md", "exec")
    written = [line for line in example.splitlines() if line.strip()]
    assert len(written) <= README_WORKFLOW_LINES_MAX


def test_the_map_names_files_that_exist(root: Path) -> None:
    """A path in backticks is read from the repository's root or from engine/perdure_engine."""
    text = (root / "engine/ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9_./]+/[a-z0-9_.]*(?:\.[a-z]+|/))`", text))
    bases = (root, root / "engine", root / "engine/perdure_engine")

    assert named, "the map has no code entry points"
    missing = [name for name in named if not any((base / name).exists() for base in bases)]
    assert missing == [], "\n".join(sorted(missing))

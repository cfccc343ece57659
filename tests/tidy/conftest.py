"""The tests of the house read the checkout itself; these fixtures say which files it is made of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "proto/perdure_api",
    "sdk/perdure",
    "engine/perdure_engine",
    "migrations/perdure_migrations",
)
# Named one by one: whatever else lies in a checkout (environments, builds, data) is not ours.
FOLDERS = (".ci", "deploy", "engine", "migrations", "proto", "sdk", "tests")


def is_generated(path: Path) -> bool:
    return "_pb2" in path.name


def files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and not is_generated(path):
            yield path


def read_text_or_none(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def modules() -> dict[str, str]:
    """The shipped modules written by hand: path from the root -> text."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in files_below(ROOT / package)
        if path.suffix == ".py"
    }


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """Every text file of the checkout that a person wrote: path from the root -> text."""
    paths = [path for path in sorted(ROOT.iterdir()) if path.is_file()]
    for folder in FOLDERS:
        paths.extend(files_below(ROOT / folder))
    found = {path.relative_to(ROOT).as_posix(): read_text_or_none(path) for path in paths}
    return {name: text for name, text in found.items() if text is not None}

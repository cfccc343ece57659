"""What must not stand in any file. The patterns are written so that they do not find themselves."""

import re

LEFT_FOR_LATER = re.compile(r"\b(TO[D]O|FIX[M]E)\b")
REGISTRY = re.compile(r"p[y]pi\.org|pytho[n]hosted|registr[y]\.npmjs|de[b]\.debian")
# Prose may speak of a database's root user and the like; code may not name a folder there.
MACHINE_PATH_IN_CODE = re.compile(r"(^|[^A-Za-z0-9_.$}])/(work|farm|root)/")
MACHINE_PATH_IN_PROSE = re.compile(r"/(work|farm)/")


def places(texts: dict[str, str], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_nothing_is_left_for_later_in_the_code(texts: dict[str, str]) -> None:
    code = {path: text for path, text in texts.items() if not path.endswith(".md")}

    assert places(code, LEFT_FOR_LATER) == []


def test_no_package_registry_is_named(texts: dict[str, str]) -> None:
    assert places(texts, REGISTRY) == []


def test_no_path_of_a_developers_machine_stands_anywhere(texts: dict[str, str]) -> None:
    prose = {path: text for path, text in texts.items() if path.endswith(".md")}
    code = {path: text for path, text in texts.items() if path not in prose}

    assert places(code, MACHINE_PATH_IN_CODE) == []
    assert places(prose, MACHINE_PATH_IN_PROSE) == []

"""Flag before environment before file, and what is refused."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.cli.errors import UsageError
from perdure.cli.settings import (
    CONFIG_FILE_BYTES_MAX,
    Flags,
    OutputFormat,
    Settings,
    load_settings,
)
from perdure.envconfig import config_path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def loaded(config: Path, text: str, flags: Flags | None = None, **variables: str) -> Settings:
    config.write_text(text, encoding="utf-8")
    return load_settings(flags or Flags(), {"PERDURE_CONFIG": str(config), **variables})


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(Flags(), {"HOME": str(tmp_path)}) == Settings(
        address="localhost:7233",
        namespace="default",
        output=OutputFormat.TABLE,
        call_timeout=timedelta(seconds=10),
        color=True,
    )


def test_the_file_gives_defaults(config: Path) -> None:
    found = loaded(
        config,
        'address = "a:1"\nnamespace = "n"\noutput = "json"\ncall_timeout = "2s"\ncolor = false\n',
    )

    assert found == Settings(
        address="a:1",
        namespace="n",
        output=OutputFormat.JSON,
        call_timeout=timedelta(seconds=2),
        color=False,
    )


def test_the_environment_is_before_the_file(config: Path) -> None:
    found = loaded(config, 'address = "a:1"', PERDURE_ADDRESS="b:2", PERDURE_OUTPUT="json")

    assert (found.address, found.output) == ("b:2", OutputFormat.JSON)


def test_an_empty_variable_counts_as_unset(config: Path) -> None:
    assert loaded(config, 'address = "a:1"', PERDURE_ADDRESS="", NO_COLOR="").address == "a:1"


def test_a_flag_is_before_everything(config: Path) -> None:
    flags = Flags(address="c:3", namespace="flag", output=OutputFormat.TABLE, call_timeout="1m")
    found = loaded(config, 'address = "a:1"', flags, PERDURE_ADDRESS="b:2", PERDURE_OUTPUT="json")

    assert found.address == "c:3"
    assert found.namespace == "flag"
    assert found.output is OutputFormat.TABLE
    assert found.call_timeout == timedelta(minutes=1)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"NO_COLOR": "0"}])
def test_no_color_is_any_value(config: Path, variables: dict[str, str]) -> None:
    assert not loaded(config, "color = true", **variables).color


def test_no_color_as_a_flag(config: Path) -> None:
    assert not loaded(config, "", Flags(no_color=True)).color


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PERDURE_CONFIG": "/x/y.toml", "HOME": "/h"}, (Path("/x/y.toml"), True)),
        ({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, (Path("/c/perdure/config.toml"), False)),
        ({"HOME": "/h"}, (Path("/h/.config/perdure/config.toml"), False)),
    ],
)
def test_where_the_file_is(environment: dict[str, str], expected: tuple[Path, bool]) -> None:
    assert config_path(environment) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("adress = 'a:1'", "unknown setting 'adress'"),
        ("address = 7233", "address must be a str"),
        ("color = 'no'", "color must be a bool"),
        ("address =", "is not TOML"),
        ("output = 'xml'", "output must be table or json"),
        ("call_timeout = 'soon'", "not a duration"),
        (f"# {'x' * CONFIG_FILE_BYTES_MAX}", "larger than the limit"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(config: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        loaded(config, text)


def test_sections_are_for_the_engine(config: Path) -> None:
    assert loaded(config, "address = 'a:1'\n[grpc]\nport = 1").address == "a:1"


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_settings(Flags(), {"PERDURE_CONFIG": str(tmp_path / "missing.toml")})


def test_a_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="not a regular file"):
        load_settings(Flags(), {"PERDURE_CONFIG": str(tmp_path / "pipe")})


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("engine", "engine:7233"),
        ("10.0.0.1", "10.0.0.1:7233"),
        ("engine:99", "engine:99"),
        ("[::1]:7233", "[::1]:7233"),
        ("unix:/tmp/engine.sock", "unix:/tmp/engine.sock"),
    ],
)
def test_an_address_without_a_port_gets_ours(config: Path, given: str, used: str) -> None:
    assert loaded(config, "", Flags(address=given)).address == used


@pytest.mark.parametrize("address", ["a b:1", "a\n:1", "\x1b[31m:1", "x" * 300])
def test_what_cannot_be_an_address_is_refused(config: Path, address: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        loaded(config, "", Flags(address=address))

"""`perdure dev`, `server`, `db` come from the engine's package, when that is there."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from perdure.cli import engine
from perdure.cli.app import app

RUNNER = CliRunner()


class EntryPoint:
    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load


@pytest.fixture
def provide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts what `load` gives in the place of the engine's entry points."""

    def provide(*loads: Callable[[], Any]) -> None:
        def find(group: str, name: str) -> list[EntryPoint]:
            assert group == "perdure.engine"
            return [EntryPoint(load) for load in loads]

        monkeypatch.setattr(engine, "entry_points", find)

    return provide


def test_a_function_becomes_the_command(provide: Callable[..., None]) -> None:
    def dev(data: str = "none", grpc_port: int = 7233) -> None:
        print(f"data={data} port={grpc_port}")

    provide(lambda: dev)

    found = RUNNER.invoke(app, ["dev", "--data", "here", "--grpc-port", "1"])
    assert (found.exit_code, found.stdout) == (0, "data=here port=1\n")


def test_a_group_keeps_its_commands(provide: Callable[..., None]) -> None:
    group = typer.Typer()

    @group.command()
    def migrate() -> None:
        print("migrated")

    @group.command()
    def status() -> None:
        raise typer.Exit(1)

    provide(lambda: group)

    assert RUNNER.invoke(app, ["db", "migrate"]).stdout == "migrated\n"
    assert RUNNER.invoke(app, ["db", "status"]).exit_code == 1


def test_their_options_are_checked(provide: Callable[..., None]) -> None:
    provide(lambda: lambda: None)

    assert RUNNER.invoke(app, ["dev", "--nonsense"]).exit_code == 2


@pytest.mark.parametrize(
    ("command", "extra"), [("dev", "dev-server"), ("server", "server"), ("db", "server")]
)
def test_a_missing_extra_is_named(provide: Callable[..., None], command: str, extra: str) -> None:
    def load() -> Any:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    provide(load)

    found = RUNNER.invoke(app, [command])
    assert found.exit_code == 1
    assert found.stdout == ""
    assert f"pip install 'perdure[{extra}]'" in found.stderr
    assert "psycopg is not installed" in found.stderr


def test_an_installation_without_entry_points(provide: Callable[..., None]) -> None:
    provide()

    found = RUNNER.invoke(app, ["dev"])
    assert found.exit_code == 1
    assert "names no engine" in found.stderr


def test_a_defect_of_ours_is_no_missing_extra(provide: Callable[..., None]) -> None:
    def load() -> Any:
        raise ModuleNotFoundError("No module", name="perdure_engine.nowhere")

    provide(load)

    assert isinstance(RUNNER.invoke(app, ["dev"]).exception, ModuleNotFoundError)


def test_help_needs_neither_the_engine_nor_grpc() -> None:
    program = (
        "import sys, perdure.cli.app\n"
        "from typer.testing import CliRunner\n"
        "found = CliRunner().invoke(perdure.cli.app.app, ['--help'])\n"
        "assert found.exit_code == 0 and 'dev' in found.stdout, found\n"
        "print(*{one.partition('.')[0] for one in sys.modules})\n"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", program], check=True, capture_output=True, text=True
    )

    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"grpc", "google", "perdure_api", "perdure_engine", "psycopg"})

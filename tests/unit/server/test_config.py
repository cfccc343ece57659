"""Where settings come from, which of them win, and what a wrong one says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from perdure_engine.history.rooms import HistoryConfig
from perdure_engine.server.config import KEYS, Config
from perdure_engine.server.config_layers import load, option, variable
from perdure_engine.server.errors import ConfigError

SECRET = "s3cret-word"
URL_WITH_SECRET = f"postgresql://perdure:{SECRET}@db.internal:5432/perdure"


def read(
    *,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    file: Path | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Config:
    return load(environment=environment or {}, options=options or {}, file=file, defaults=defaults)


def write(folder: Path, text: str) -> Path:
    path = folder / "perdure.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_source_the_defaults_hold() -> None:
    config = read()

    assert config == Config()
    assert config.history == HistoryConfig()
    assert config.grpc.host == config.http.host == "127.0.0.1"


def test_later_layers_win(tmp_path: Path) -> None:
    file = write(tmp_path, "[grpc]\nport = 2\n[http]\nport = 2\n[log]\nlevel = 'debug'\n")
    environment = {"PERDURE_GRPC_PORT": "3", "PERDURE_HTTP_PORT": "3"}
    defaults = {"log.format": "console", "log.level": "warning"}

    config = read(file=file, environment=environment, options={"grpc.port": 4}, defaults=defaults)

    assert config.grpc.port == 4
    assert config.http.port == 3
    assert config.log.level == "debug"
    assert config.log.format == "console"


def test_an_option_that_was_not_given_and_an_empty_variable_set_nothing() -> None:
    config = read(environment={"PERDURE_GRPC_PORT": ""}, options={"grpc.port": None})

    assert config.grpc.port == Config().grpc.port


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[database]\nnumber_of_shards = 8\n")

    assert read(environment={"PERDURE_CONFIG": str(file)}).database.number_of_shards == 8


def test_every_setting_can_be_set_in_the_environment() -> None:
    environment = {variable(key): "1" for key in KEYS}
    environment |= {
        "PERDURE_DATABASE_URL": "dbname=perdure",
        "PERDURE_DATABASE_STATEMENT_TIMEOUT_MS": "5000",
        "PERDURE_NODE_ROLES": "all",
        "PERDURE_LOG_LEVEL": "error",
        "PERDURE_LOG_FORMAT": "json",
        "PERDURE_METRICS_OTLP_ENDPOINT": "http://localhost:4317",
        "PERDURE_ARCHIVE_URL": "s3://bucket/prefix",
    }

    config = read(environment=environment)

    assert config.database.allow_unsafe is True
    assert config.history.lease_s == 1.0
    assert config.history.runs_cached_max == 1
    assert config.node.region == "1"
    assert config.database.number_of_shards == 1


def test_variables_of_others_are_passed_over() -> None:
    # The CLI's, and those that Kubernetes sets for a service of that name.
    environment = {"PERDURE_NAMESPACE": "shop", "PERDURE_PORT": "tcp://10.0.0.1:7233"}

    assert read(environment=environment) == Config()


@pytest.mark.parametrize("text", ["[grpc]\nprot = 1\n", "[databse]\nurl = 'x'\n"])
def test_an_unknown_name_in_the_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="unknown settings in"):
        read(file=write(tmp_path, text))


def test_a_file_that_is_missing_or_broken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(file=tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(file=write(tmp_path, "[grpc\n"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PERDURE_GRPC_PORT", "tcp://10.0.0.1:7233"),
        ("PERDURE_GRPC_PORT", "70000"),
        ("PERDURE_NODE_ROLES", "history"),
        ("PERDURE_LOG_LEVEL", "loud"),
        ("PERDURE_DATABASE_NUMBER_OF_SHARDS", "0"),
        ("PERDURE_HISTORY_LEASE_S", "soon"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_source(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"^[a-z_.]+: .*\({name}\)$"):
        read(environment={name: value})


@pytest.mark.parametrize("url", ["file:///var/lib/perdure", "s3://bucket", "s3://bucket/a/b"])
def test_an_archive_is_a_folder_or_a_bucket(url: str) -> None:
    assert read(environment={"PERDURE_ARCHIVE_URL": url}).archive.url == url


@pytest.mark.parametrize(
    "url",
    [
        *(
            "/var/lib/perdure",
            "file://relative",
            "file:///",
            "s3://",
            "s3:///prefix",
            "gs://bucket",
        ),
        *("s3://key:secret@bucket/prefix", "s3://bucket?secret=1", "file:///a#b", "s3://[bucket"),
    ],
)
def test_an_archive_anywhere_else_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="PERDURE_ARCHIVE_URL") as refused:
        read(environment={"PERDURE_ARCHIVE_URL": url})
    assert "secret" not in str(refused.value)


def test_times_and_limits_of_history_are_above_zero() -> None:
    with pytest.raises(ConfigError, match=r"history\.lease_s"):
        read(environment={"PERDURE_HISTORY_LEASE_S": "-1"})


def test_one_file_may_serve_the_cli_too(tmp_path: Path) -> None:
    file = write(tmp_path, "address = 'localhost:7233'\ncolor = false\n[grpc]\nport = 7\n")

    assert read(file=file).grpc.port == 7


def test_a_password_is_taken_from_the_environment_but_not_from_the_command_line() -> None:
    assert SECRET in read(environment={"PERDURE_DATABASE_URL": URL_WITH_SECRET}).database.url

    with pytest.raises(ConfigError, match="PERDURE_DATABASE_URL") as refused:
        read(options={"database.url": URL_WITH_SECRET})
    assert SECRET not in str(refused.value)
    assert read(options={"database.url": "host=/run/pg dbname=perdure"}).database.url


def test_a_wrong_url_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigError, match="database") as refused:
        read(environment={"PERDURE_DATABASE_URL": f"pasword={SECRET}"})
    assert SECRET not in str(refused.value)


def test_showing_the_settings_shows_no_password() -> None:
    config = read(environment={"PERDURE_DATABASE_URL": URL_WITH_SECRET})

    assert SECRET not in repr(config)
    assert SECRET not in str(config.database)
    assert "db.internal" in repr(config)


def test_names_of_variables_and_options() -> None:
    assert variable("history.offer_again_after_s") == "PERDURE_HISTORY_OFFER_AGAIN_AFTER_S"
    assert option("database.url") == "--database-url"


def test_where_figures_are_sent_must_be_an_address() -> None:
    with pytest.raises(ConfigError, match="must begin with http:// or https://"):
        read(environment={"PERDURE_METRICS_OTLP_ENDPOINT": "localhost:4317"})

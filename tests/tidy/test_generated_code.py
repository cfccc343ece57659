"""The committed code beside each .proto is what the pinned generator makes of it."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def generated(proto: Path) -> dict[str, bytes]:
    return {
        path.relative_to(proto).as_posix(): path.read_bytes()
        for path in sorted(proto.rglob("*_pb2*"))
        if path.suffix in (".py", ".pyi")
    }


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None,
    reason="grpcio-tools is not installed beside protobuf 7; make check does this there",
)
def test_the_generated_code_is_fresh(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "proto"
    shutil.copytree(root / "proto", copy, ignore=shutil.ignore_patterns("*_pb2*", "__pycache__"))
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)

    subprocess.run(["bash", str(copy / "generate.sh")], check=True)

    made, committed = generated(copy), generated(root / "proto")
    assert committed
    assert sorted(committed) == sorted(made)
    assert [name for name in made if made[name] != committed[name]] == []

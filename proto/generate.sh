#!/usr/bin/env bash
# Regenerates the code beside each .proto with the pinned grpcio-tools (its output runs on protobuf 6 and 7).
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python}"
"$python" -P -m grpc_tools.protoc -I. \
  --python_out=. --grpc_python_out=. --mypy_out=. --mypy_grpc_out=. \
  perdure_api/v1/*.proto perdure_api/internal/v1/*.proto

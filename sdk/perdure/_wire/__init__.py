"""Where the SDK meets the wire: the only package that knows perdure_api, protobuf and gRPC.

What comes in and goes out here are plain Python values: replay's messages, payloads, failures,
dataclasses, `perdure.errors`. Nothing outside of this package sees a message type or a status code
of gRPC's.
"""

import os

# A forked process in which gRPC starts its threads anew crashes at some point, and it does so unless
# it is told otherwise before it is imported. Ours never touches gRPC; what the environment says stays.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # noqa: TID251 - gRPC reads it there

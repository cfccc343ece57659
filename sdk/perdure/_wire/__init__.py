"""Where the SDK meets the wire: the only package that knows perdure_api, protobuf and gRPC.

What comes in and goes out here are plain Python values: replay's messages, payloads, failures,
dataclasses, `perdure.errors`. Nothing outside of this package sees a message type or a status code
of gRPC's.
"""

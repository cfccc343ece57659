"""The wire contract: generated protobuf and gRPC code beside each .proto file."""

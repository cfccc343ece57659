"""The API over gRPC: messages in, intents on; replies back, messages out."""

"""The gRPC server: calls, streams, statuses, reflection."""

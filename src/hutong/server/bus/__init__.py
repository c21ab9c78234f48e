"""The event bus as a part of a node, with its log, its bridges, and its services for RPC and gRPC."""

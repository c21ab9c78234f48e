"""Protobuf: descriptors read into plans, and the binary form of messages into rows, without a library."""

"""Schemas: a service's signatures as a `.proto` file, and its values as protobuf messages."""

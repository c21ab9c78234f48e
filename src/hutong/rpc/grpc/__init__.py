"""gRPC: a service's `.proto` from its Protocol, and a door by which other languages call it.

Needs the extra `grpc`; nothing of it is imported before a door or a descriptor is made. `names`, `schema`, `shapes`,
`mapping` and `text` do without: a `.proto` can be printed where gRPC is not installed.
"""

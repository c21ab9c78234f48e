"""gRPC: a service's `.proto` from its Protocol, and a server by which other languages call it.

`open_server(rpc, "HOST:PORT")` needs the extra `grpc`; nothing of it is imported before. What makes a `.proto` does
without (`mapping`, `text` and what they use), so one can be printed where gRPC is not installed.
"""

from hutong.rpc.grpc.limits import GrpcLimits
from hutong.rpc.grpc.opening import GrpcTls, open_server

__all__ = ["GrpcLimits", "GrpcTls", "open_server"]

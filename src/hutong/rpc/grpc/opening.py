"""Opening a server for the services of an `Rpc`: the address, the certificates, and the sentence where gRPC is absent.

Knows nothing of calls.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.addresses import scheme_advice
from hutong.foundation.errors import ExitCode, UsageError
from hutong.reactor.accept.exposure import ALL, check_exposure
from hutong.rpc.grpc.limits import GrpcLimits

if TYPE_CHECKING:
    from hutong.foundation.clock import Clock
    from hutong.rpc.descriptions.description import ServiceDescription
    from hutong.rpc.grpc.serving.server import GrpcServer
    from hutong.rpc.rpc import Rpc

PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class GrpcTls:
    """Files in PEM. The key may be in the certificate's; with `client_ca`, clients must show certificates of theirs.

    Files that change are loaded again, for connections that begin `reload_interval_ms` later at the latest.
    """

    certificate: Path | str
    key: Path | str | None = None
    client_ca: Path | str | None = None
    reload_interval_ms: int = 5_000


async def open_server(
    rpc: "Rpc",
    listen: str = "127.0.0.1:50051",
    *,
    tls: GrpcTls | None = None,
    limits: GrpcLimits | None = None,
    allow_plain: bool = False,
) -> "GrpcServer":
    """Listen for all services that are or will be bound. `server.address` is HOST:PORT, `close` ends it.

    Call it on the loop of `rpc`. Raises UsageError where gRPC is not installed, and for an address or a file that
    cannot be used, or would be open to the network without TLS where `allow_plain` does not say that it may.
    """
    host, port = host_and_port(listen)
    check_exposure("grpc", f"gRPC at {listen}", host, has_tls=tls is not None, allowed=(ALL,) if allow_plain else ())
    server = build_server(rpc, tls=tls, limits=limits)
    await server.listen(host, port)
    return server


def build_server(rpc: "Rpc", *, tls: GrpcTls | None = None, limits: GrpcLimits | None = None) -> "GrpcServer":
    """The same, not listening yet: `add` to it first what is to have a package of its own."""
    try:
        from hutong.rpc.grpc.serving.server import GrpcServer
    except ImportError as error:
        raise UsageError(
            f"A gRPC server needs {error.name or 'packages'}, which is not installed: pip install 'hutong[grpc]'.",
            ExitCode.UNAVAILABLE,
        ) from None

    def bound() -> "Iterator[tuple[str, ServiceDescription]]":
        return iter([(binding.address, binding.description) for binding in rpc.registry.bindings])

    runtime = rpc.runtime
    credentials = None if tls is None else _credentials(tls, runtime.clock)
    return GrpcServer(rpc.find, bound, clock=runtime.clock, wheel=runtime.wheel, limits=limits, credentials=credentials)


def host_and_port(text: str) -> tuple[str, int]:
    """HOST:PORT, an IPv6 host in brackets. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise UsageError(f"{text!r} is no address for gRPC; write HOST:PORT{scheme_advice(text)}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _credentials(tls: GrpcTls, clock: "Clock") -> Any:
    from hutong.rpc.grpc.certificates import GrpcCertificates

    return GrpcCertificates(tls, clock).credentials()

"""TLS: contexts of listeners, sessions as bytes in and bytes out, and their place between transport and connection."""

from hutong.reactor.tls.server_contexts import server_context

__all__ = ["server_context"]

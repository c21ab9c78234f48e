"""The bus over many nodes: connections between them, in Vert.x's own wire format and registrations."""

from hutong.bus.clustered.tls import ClusterTls

__all__ = ["ClusterTls"]

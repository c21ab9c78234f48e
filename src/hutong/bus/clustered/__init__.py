"""The bus over many nodes: connections between them, in Vert.x's own wire format and registrations."""

from hutong.bus.clustered.permissions import ClusterPermissions
from hutong.bus.clustered.tls import ClusterTls

__all__ = ["ClusterPermissions", "ClusterTls"]

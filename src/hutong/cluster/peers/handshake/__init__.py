"""The handshake: both sides of a new connection prove that they belong to the cluster."""

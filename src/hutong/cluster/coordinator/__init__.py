"""The port to the service that agrees for the cluster, and what implements it."""

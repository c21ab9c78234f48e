"""Observation of a node: a client without a socket, and the waits built on it."""

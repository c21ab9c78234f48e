"""Connections: the engine of one connection, its driver, its answers in order, and the peer that handlers see."""

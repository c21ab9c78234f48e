"""Replication of partition groups: a leader's stream of chunks on other nodes, and which of them are in sync."""

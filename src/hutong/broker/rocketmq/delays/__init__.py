"""Delayed messages: one queue for each length of delay, whose head is due first."""

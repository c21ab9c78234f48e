"""Faults that a test switches on, and the answers that they put in place of the broker's."""

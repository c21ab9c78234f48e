"""Processes: a supervisor, the drivers that it starts."""

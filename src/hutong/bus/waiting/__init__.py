"""Waiting on the bus: promises, where they call back, and what is kept per context."""

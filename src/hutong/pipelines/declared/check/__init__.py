"""Checks of a declaration: by itself, and against its brokers."""

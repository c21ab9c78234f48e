"""Executors of the processors that do not run inline."""

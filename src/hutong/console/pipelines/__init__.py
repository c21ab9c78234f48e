"""Pipelines in the console: how they do, and the reports of their runs."""

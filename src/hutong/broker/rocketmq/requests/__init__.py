"""Handlers, one file for each request code or family of codes."""

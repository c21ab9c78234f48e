"""Listeners of a node: where they are, their certificates, their authentication."""

"""Descriptions of services, from signatures to values that cross a wire."""

"""Declarations: the values of a pipeline, read from TOML or Python."""

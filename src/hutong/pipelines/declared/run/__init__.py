"""Runs: queries started and followed, progress, the folder of a pipeline's state."""

"""Writing topics: in Spark's workers from Arrow to record batches, and their delivery."""

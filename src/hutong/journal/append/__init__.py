"""Appending to logs: the writer, the flusher, and what becomes visible and acknowledged."""

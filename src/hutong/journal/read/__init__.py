"""Reading logs: from the cache, from segments, and by time."""

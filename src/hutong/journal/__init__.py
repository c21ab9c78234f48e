"""Journal: the durable heart. Knows bytes, positions and offsets; no protocol, no topics, no network."""

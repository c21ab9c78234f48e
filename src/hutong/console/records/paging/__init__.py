"""Pages of a topic: the newest, the oldest, from an offset or a time on, and those next to them."""

"""Groups of consumers: members, offsets, lag over time, and resets with a preview and an undo."""

"""Back-off: the time at which a client may dial an address again."""

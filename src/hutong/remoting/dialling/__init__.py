"""When a client may try an address again."""

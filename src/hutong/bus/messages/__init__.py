"""Messages: bodies, codecs, headers, what interceptors see, and replies."""

"""Accepting: listening sockets, limits by address, and the life of all accepted connections."""

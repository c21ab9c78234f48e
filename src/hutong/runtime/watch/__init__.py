"""Watching: blocked threads, stalls of the loop, and the handler that a thread runs."""

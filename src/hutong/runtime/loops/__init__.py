"""Event loops, the timers that run on them, and Python's collector kept away from them."""

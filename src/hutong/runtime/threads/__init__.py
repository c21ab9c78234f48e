"""Threads for blocking work: pools, offloads to them, and precedence among users of one device."""

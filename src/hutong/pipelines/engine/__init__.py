"""Spark itself: a Java for it, sessions, interrupts, what ran and what went wrong. Knows nothing of topics."""

"""Contexts: handlers in order, on a loop or on workers, with their coroutines and timers."""

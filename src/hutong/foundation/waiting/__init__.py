"""Waiting: every parked continuation of the program is in one of three tables."""

"""Resets of a group's offsets: `plan.py` works out what would change, `undo.py` keeps what was there before."""

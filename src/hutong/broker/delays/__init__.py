"""Delayed records: they wait in logs of their own, each for its time, and are appended to their topics then."""

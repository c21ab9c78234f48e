"""The live tail: records as they come, by samples where too many come."""

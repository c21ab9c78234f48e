"""Delivery semantics: request ids, callers that retry, and the memory that answers repeated calls."""

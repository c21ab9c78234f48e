"""Callers that retry: their sessions, request ids and attempts."""

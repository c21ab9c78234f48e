"""Checkers: from the history of all clients to the promises that were broken."""

"""Fetch: sessions (KIP-227), the fetch in a session, and reads from disk."""

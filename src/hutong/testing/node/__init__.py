"""The embedded node: its life, its loop on a thread, and its helpers for tests."""

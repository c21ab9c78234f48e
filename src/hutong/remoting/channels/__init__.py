"""Channels: invocations and answers over one connection, with hooks before and events after."""

"""RPC: services called by name over the event bus or a connection, their effects as often as the caller chose."""

"""Commands that use the event bus of a running node: messages, services."""

"""Requests of RocketMQ's administrators and their tools: one file for each family of request codes."""

"""Pipelines of handlers: what one connection does with its bytes, as a list that a program composes."""

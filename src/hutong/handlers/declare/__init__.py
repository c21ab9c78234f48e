"""Declarations of handlers: their signatures, the models of their messages, and their options."""

"""Principals, authentication and authorization. Knows no broker, no topic and no socket."""

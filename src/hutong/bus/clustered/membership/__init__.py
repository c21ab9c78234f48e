"""Membership: which nodes there are, and what is registered at them."""

"""High availability: verticles of a node that has died are deployed by another one (docs/availability.md)."""

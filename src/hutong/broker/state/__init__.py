"""Durable maps: state topics kept in a log, and tables of the node's metadata on top of them."""

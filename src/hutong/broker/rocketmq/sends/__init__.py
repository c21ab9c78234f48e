"""The short way of plain messages: most that a node gets, many by one call."""

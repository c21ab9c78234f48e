"""How often an effect happens: request ids, callers that try again, and the memory that answers what it knows."""

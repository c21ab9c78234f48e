"""POP consumption: messages are handed out singly for a while, by the machinery of share groups."""

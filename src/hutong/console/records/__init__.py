"""Records of a topic as people look at them: read, decoded, searched, followed, written again."""

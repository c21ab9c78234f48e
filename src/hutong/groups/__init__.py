"""Consumer groups and share groups: members, assignments, and committed offsets."""

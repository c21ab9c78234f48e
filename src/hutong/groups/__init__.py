"""Consumer groups: who is a member, who owns what, and how far each group has read."""

"""Client quotas (KIP-13, KIP-55, KIP-124, KIP-219, KIP-546): who has one, what it allows, and how clients feel it."""

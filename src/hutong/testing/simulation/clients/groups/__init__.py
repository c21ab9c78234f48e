"""Members of groups: of the classic protocol, of KIP-848, and of share groups."""

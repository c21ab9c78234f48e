"""Consumer groups whose partitions the broker assigns (KIP-848)."""

"""The decisions of the one node that leads the metadata: leaders, in-sync sets, placement."""

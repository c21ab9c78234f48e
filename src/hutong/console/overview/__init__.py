"""The overview: how a node or cluster is, and what to do."""

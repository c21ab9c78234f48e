"""A follower's side of one partition group."""

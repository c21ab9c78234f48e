"""The leader's side of one partition group."""

"""Share groups (KIP-932): sessions, waiting fetches, and the logs that they read."""

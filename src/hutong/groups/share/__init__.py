"""Share groups (KIP-932): members that take records of one partition side by side, each acknowledged on its own."""

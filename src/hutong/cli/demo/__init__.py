"""`hutong demo`: one command that shows the whole system on real events found on this machine."""

"""Helpers of the tests that judge a node from outside: processes, waiting, checking histories."""

"""The members of a consumer group: their reconciliation, checks of their requests, and the classic protocol."""

"""The members of a classic group: the table, admission, session leases and the join barrier."""

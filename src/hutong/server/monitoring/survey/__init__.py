"""A scan of all topics, groups and transactions, in steps, with a bound on the rows of each kind."""

"""A look at all topics, groups and transactions, in steps, with a bound on what is shown singly."""

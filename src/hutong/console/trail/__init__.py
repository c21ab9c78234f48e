"""A record's way: every place in the log where its key, its trace or a letter of it can be found."""

"""One file per API: its key, its versions and how they differ, then the tables of its request and its response."""

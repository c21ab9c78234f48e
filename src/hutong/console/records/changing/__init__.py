"""Records that are written from the console: produced, sent again, copied to another topic."""

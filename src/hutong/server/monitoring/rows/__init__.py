"""The rows of the metrics page, a module for each room that counts: names, kinds, meanings, and how each is read."""

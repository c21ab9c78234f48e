"""The rows of the metrics page, a module for each package with figures: names, kinds, meanings, and their sources."""

"""The settings of a node: their sections, their sources, and their translation for each package."""

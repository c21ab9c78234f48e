"""The broker as a part of a node: its data folder, its coordinators, its files and users."""

"""The data of a broker: its folder, journals, open files, users, periodic work."""

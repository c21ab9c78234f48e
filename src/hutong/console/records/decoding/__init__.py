"""Keys and values as text for people: forms, the choice among them, and bounds of what is shown."""

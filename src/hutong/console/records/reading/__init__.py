"""The consumer of the console, and the places in a topic where it reads."""

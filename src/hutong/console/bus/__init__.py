"""The event bus in the console: addresses, a live tap, and messages from the page."""

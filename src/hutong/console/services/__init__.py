"""Services in the console: methods, their figures, and calls from the page."""

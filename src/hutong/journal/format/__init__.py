"""The formats of a journal's files: bytes to values and back."""

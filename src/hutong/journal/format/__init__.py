"""What a journal's files hold, byte by byte: bytes to values and back."""

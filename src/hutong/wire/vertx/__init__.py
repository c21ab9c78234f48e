"""The protocols of Vert.x clients: bytes to values and back."""

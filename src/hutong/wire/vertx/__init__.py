"""What Vert.x clients speak: bytes to values and back."""

"""Small clients in a simulation, which behave as real ones where it matters: retries, epochs, rejoining."""

"""Frames: the cutting of bytes into frames, their memory, and the queue of requests that have arrived."""

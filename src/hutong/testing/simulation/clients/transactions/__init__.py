"""Transactional clients: a producer, and a processor whose offsets are part of its transactions."""

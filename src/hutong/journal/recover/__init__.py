"""Recovery of a journal at its start: checkpoints, scans, inspection and repair."""

"""Disks for tests: simulated, in memory, with faults by plan, or cut off from their process."""

"""Simulated machines: hosts, their processes, event loops, clocks, threads and folders."""

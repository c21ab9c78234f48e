"""Sources on a run: event logs, progress lines, or a running driver."""

"""What a run of a pipeline did, as one HTML page: read from progress lines, event logs or a live driver."""

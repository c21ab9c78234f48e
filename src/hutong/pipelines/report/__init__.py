"""A run of a pipeline as one HTML page, made from progress lines, event logs or a live driver."""

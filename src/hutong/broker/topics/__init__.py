"""Topics and their partitions: the catalogue, their settings, where their logs live and how long records are kept."""

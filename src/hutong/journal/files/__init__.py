"""The files of a journal: the disk's port, the segments, and the blocking work on them."""

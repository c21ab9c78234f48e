"""Making room: retention, compaction, and the removal of segments."""

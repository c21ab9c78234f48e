"""Reading topics: from options to planned ranges, and in Spark's workers from fetched bytes to Arrow."""

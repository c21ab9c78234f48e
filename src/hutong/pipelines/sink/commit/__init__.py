"""The end of a batch: which transactions of its tasks count, recorded before any of them is committed."""

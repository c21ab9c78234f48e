"""Record batches: headers, compression, checks and walks of their records."""

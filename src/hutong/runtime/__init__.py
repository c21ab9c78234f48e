"""Runtime: what joins the pure rooms to a running loop and to worker threads. Knows no messaging."""

"""What a node shows of itself over HTTP: metrics for Prometheus, and whether it lives and is ready."""

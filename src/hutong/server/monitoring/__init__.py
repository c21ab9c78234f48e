"""Metrics for Prometheus, liveness and readiness of a node over HTTP."""

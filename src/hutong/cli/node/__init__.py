"""Commands about a node: serve, its settings, its data folder, certificates, the demo."""

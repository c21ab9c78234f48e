"""Parts of a node that speak HTTP to people's programs."""

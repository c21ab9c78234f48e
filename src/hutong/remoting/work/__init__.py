"""Where processors work that do not run inline."""

"""Our own tests use the plugin that we give to others; it is named here so that it is there without an installation."""

pytest_plugins = ["hutong.testing.plugin"]

"""Examples that a command runs. They are part of the package, so that an installed wheel has them too."""

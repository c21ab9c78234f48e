"""Testing: stand-ins for the machine (clock, disk) for this project's tests and simulators."""

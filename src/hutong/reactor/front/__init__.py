"""The reactor's front: servers and connections in a few lines, their clock, timers and limits already chosen."""

"""`hutong run`: an app of handlers, in one process or several."""

"""Foundation: clock, errors, timers and waiting, used by every other package. Imports nothing of ours."""

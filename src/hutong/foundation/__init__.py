"""Foundation: what every room stands on. Imports nothing of ours."""

"""The sections of the settings, by what they are about. `server/configuration/settings.py` puts them together."""

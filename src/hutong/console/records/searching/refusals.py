"""The error of a search that cannot be done as it is written."""

from hutong.foundation.errors import PeerError


class WrongSearch(PeerError):
    """A sentence for the user."""

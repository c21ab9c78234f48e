"""The bound of work that values and schemas of strangers may cost together.

Knows no format.
"""

from typing import Final

from hutong.foundation.errors import ProtocolError

STEPS_MAX: Final = 5_000_000
"""Of all values of one request: a body of 10 MiB has as many numbers at most. Python takes some seconds for them."""


class WriteSteps:
    """Steps that are left for the values of one request."""

    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self._left = steps_max

    def count(self, steps: int = 1) -> None:
        """Raises ProtocolError where none is left."""
        self._left -= steps
        if self._left < 0:
            raise ProtocolError("its values and their schemas take too many steps: send fewer with one request")

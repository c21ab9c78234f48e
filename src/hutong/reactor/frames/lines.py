r"""Lines: frames that end with a newline, for protocols that people type.

Strategy: every byte is copied once and looked at once, however the bytes are cut, so a line that comes byte by byte
costs no more than its length. A line is handed out without its `\n`, and without the `\r` before it, which telnet and
the line protocols of the internet send (RFC 854).

Knows nothing of sockets, time or what a line means.
"""

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer


class LineFraming:
    """Lines of at most `frame_bytes_max` bytes before the newline; one more breaks the connection."""

    __slots__ = ("_begun", "bytes_held", "failure", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.bytes_held = 0
        self.failure: ProtocolError | None = None
        self._begun = bytearray()  # of a line whose end has not come

    def receive_data(self, data: Buffer) -> list[Buffer]:
        lines: list[Buffer] = []
        # The connection is closing: what follows a line that is too long has no meaning.
        if self.failure is not None:
            return lines
        *ended, rest = bytes(data).split(b"\n")
        # Each part ends the line that is begun; all but the first begin one as well.
        for end in ended:
            self._begun += end
            if self._is_too_long():
                return lines
            # One return at most: a line may end with the byte itself.
            lines.append(bytes(self._begun).removesuffix(b"\r"))
            self._begun.clear()
        self._begun += rest
        # Before its newline comes: a line without an end would fill the memory.
        if not self._is_too_long():
            self.bytes_held = len(self._begun)
        return lines

    def _is_too_long(self) -> bool:
        if len(self._begun) <= self.frame_bytes_max:
            return False
        self.failure = ProtocolError(f"a line of more than {self.frame_bytes_max} bytes")
        self._begun.clear()
        self.bytes_held = 0
        return True

"""Many lines at once: a run is one phrase said again and again, with serials that count up.

Strategy: what would cost a microsecond for each line in Python is done for thousands of them by a few steps in C. The
bytes of a whole run are made by repeating one phrase and then laying the columns of its serials over it. To recognise a
run, the run that ought to come next is made and compared with what came: first one phrase, then twice as many, and so
on, halving again after the first difference. So not a byte is taken for granted, and the quick way can know nothing
that the encoder does not. Lines that are in no run, as when another program mixes its questions and answers, are runs
of one.

Knows no meaning of any text, and nothing of which serial is due.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from hutong.cli.meet.lines import HEAD, Line, decode_line, encode_line, line_end
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

_BLOCK: Final = 1 << 16  # serials whose upper half is the same; a run is made of pieces that lie in one such block
_LOWEST: Final = bytes(range(256)) * (_BLOCK // 256 + 1)
_SECOND: Final = b"".join(bytes((number,)) * 256 for number in range(256))
_SERIAL: Final = struct.Struct(">I")


class Phrase:
    """Lines that one side says in one breath, all with the same serial."""

    __slots__ = ("_parts", "_serials_at", "size", "texts")

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self._parts = [(encode_line(0, text)[:4], text.encode()) for text in texts]
        self._serials_at: list[int] = []
        self.size = 0  # bytes
        for text in texts:
            self._serials_at.append(self.size + 4)
            self.size += len(encode_line(0, text))

    def encode(self, first: int, count: int) -> Buffer:
        """The phrase with serial `first`, with `first + 1` and so on, `count` times. Serials fit in 32 bits."""
        if count == 1:
            return self._one(first)
        start = first % _BLOCK
        if start + count > _BLOCK:
            here = _BLOCK - start
            return b"".join([self.encode(first, here), self.encode(first + here, count - here)])
        run = bytearray(self._one(first - start)) * count
        second, lowest = _SECOND[start : start + count], _LOWEST[start % 256 : start % 256 + count]
        for at in self._serials_at:
            run[at + 2 :: self.size] = second
            run[at + 3 :: self.size] = lowest
        return run

    def _one(self, serial: int) -> bytes:
        number = _SERIAL.pack(serial)
        one = b""
        for length, text in self._parts:
            one += length + number + text
        return one

    def __repr__(self) -> str:
        return f"Phrase{self.texts}"


class Run(NamedTuple):
    phrase: Phrase
    first: int  # serial
    times: int

    def lines(self) -> list[Line]:
        return [Line(self.first + number, text) for number in range(self.times) for text in self.phrase.texts]


class RunDecoder:
    """Bytes of one direction in, runs out. `failure` is set at the first bytes that are wrong; no run follows it.

    With `line_by_line` each run is a single line, whatever comes: the careful way, to measure and to compare with.
    """

    def __init__(self, phrases: Iterable[Phrase], *, line_by_line: bool = False) -> None:
        """`phrases` are those that may be heard. A line that begins none of them is a failure."""
        self.failure: ProtocolError | None = None
        self._rest = b""  # of a line that is not complete
        self._phrases: dict[bytes, list[Phrase]] = {}  # by the text they begin with, the longest first
        for phrase in sorted(phrases, key=lambda phrase: -phrase.size):
            if not line_by_line or len(phrase.texts) == 1:
                self._phrases.setdefault(phrase.texts[0].encode(), []).append(phrase)
        self._line_by_line = line_by_line

    @property
    def bytes_held(self) -> int:
        return len(self._rest)

    def receive_data(self, data: Buffer) -> list[Run]:
        """The runs completed by `data`, in order. How the bytes are cut makes no difference to the lines."""
        if self.failure is not None:
            return []
        heard = self._rest + data
        runs: list[Run] = []
        at = 0
        try:
            while (end := line_end(heard, at)) is not None and end <= len(heard):
                run = self._run_at(heard, at, end)
                runs.append(run)
                at += run.times * run.phrase.size
        except ProtocolError as error:
            self.failure = error
            at = len(heard)
        self._rest = heard[at:]
        return runs

    def _run_at(self, heard: bytes, at: int, end: int) -> Run:
        """The longest run at `at`, where a whole line lies."""
        phrases = self._phrases.get(heard[at + HEAD.size : end])
        if phrases is None:
            serial, text = decode_line(heard, at, end)
            raise ProtocolError(f"serial {serial}: unexpected {text!r}")
        (first,) = _SERIAL.unpack_from(heard, at + 4)
        if self._line_by_line:
            return Run(phrases[0], first, 1)
        for phrase in phrases:
            if phrase.size == end - at or heard.startswith(phrase.encode(first, 1), at):
                return Run(phrase, first, _count(heard, at, phrase, first))
        raise AssertionError("every text that may be heard is a phrase of its own")


def _count(heard: bytes, at: int, phrase: Phrase, first: int) -> int:
    """How many times the phrase stands at `at` with serials that count up; the first is known to."""
    size = phrase.size
    count_max = min((len(heard) - at) // size, (1 << 32) - first)
    count, step, grows = 1, 1, True
    while step:
        if count + step <= count_max and heard.startswith(phrase.encode(first + count, step), at + count * size):
            count += step
            step = step * 2 if grows else step // 2
        else:
            grows = False
            step //= 2
    return count

"""The duplex exercise: two peers talk on one TCP connection, and each speaks and listens at the same time.

    python examples/duplex/meet.py                        # both sides, in two processes, over loopback
    python examples/duplex/meet.py listen 127.0.0.1:7700  # Zhang's side alone
    python examples/duplex/meet.py dial 127.0.0.1:7700    # Li's side alone

In each meeting six lines are spoken. A question and its answer carry the same serial, and nobody waits for an answer
before the next question:

    Zhang asks 吃了没，您吶?        Li answers 刚吃。
    Li asks 您这，嘛去？            Zhang answers 嗨！吃饱了溜溜弯儿。
    Li asks 有空家里坐坐啊。        Zhang answers 回头去给老太太请安！

A line on the wire is a 32-bit length of what follows, a 32-bit serial and the text in UTF-8; numbers are big-endian.

Neither side can deadlock the other. The classic mistake is a reader that writes its answers itself: once both sockets'
buffers are full, each side waits in a write for the other to read. Here reading never waits for writing. Answers that
the socket does not take yet are kept in memory. Their number is bounded because each side stops asking while more than
UNSENT_BYTES_MAX is unsent.
"""

import argparse
import asyncio
import contextlib
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

Z0, Z3, Z5 = (text.encode() for text in ("吃了没，您吶?", "嗨！吃饱了溜溜弯儿。", "回头去给老太太请安！"))
L1, L2, L4 = (text.encode() for text in ("刚吃。", "您这，嘛去？", "有空家里坐坐啊。"))

HEAD: Final = struct.Struct(">II")  # length of what follows, serial
SERIAL_BYTES: Final = 4  # the part of the head that the length counts
LINE_BYTES_MAX: Final = 1024  # a longer line is refused before it is complete
ASK_MEETINGS: Final = 1024  # asked about in one write
UNSENT_BYTES_MAX: Final = 256 * 1024  # a side with more than this unsent asks nothing
OWED_BYTES_MAX: Final = 64 * 1024 * 1024  # a side with more than this unsent does not read either; above the former
EXIT_WRONG: Final = 1
EXIT_USAGE: Final = 64
EXIT_UNAVAILABLE: Final = 69


class Part(NamedTuple):
    """One side's script: its questions, the answers to them, and its own answers by the question they belong to."""

    questions: tuple[bytes, ...]
    expected_answers: tuple[bytes, ...]
    answers: dict[bytes, bytes]
    leaves_last: bool


ZHANG: Final = Part((Z0,), (L1,), {L2: Z3, L4: Z5}, leaves_last=True)
LI: Final = Part((L2, L4), (Z3, Z5), {Z0: L1}, leaves_last=False)


class MeetingFailed(Exception):
    """A line was wrong or missing, or the peer went away."""


class Side:
    """One side of the exercise without a socket: bytes received go in, bytes to send come out."""

    def __init__(self, part: Part, meetings: int) -> None:
        self.part = part
        self.meetings = meetings
        self._asked = 0  # meetings
        self._rest = b""  # the beginning of a line that is not complete yet
        self._next_serial = dict.fromkeys((*part.answers, *part.expected_answers), 0)
        self._encoders = [line_encoder(text) for text in part.questions]
        self._answer_encoders = {question: line_encoder(answer) for question, answer in part.answers.items()}

    @property
    def has_asked_all(self) -> bool:
        return self._asked == self.meetings

    @property
    def has_heard_all_questions(self) -> bool:
        return all(self._next_serial[question] == self.meetings for question in self.part.answers)

    @property
    def has_heard_all(self) -> bool:
        return min(self._next_serial.values()) == self.meetings

    @property
    def missing(self) -> str:
        """The lines that have not come, as words for a person."""
        due = {text.decode(): self.meetings - serial for text, serial in self._next_serial.items()}
        return ", ".join(f"{count} of {text!r}" for text, count in due.items() if count)

    def ask(self, meetings_max: int) -> bytes:
        """Encode the next questions; empty once all are asked."""
        first = self._asked
        self._asked = min(self.meetings, first + meetings_max)
        return b"".join(
            [encoder.pack(length, serial, text) for serial in range(first, self._asked)
             for encoder, length, text in self._encoders]
        )  # fmt: skip

    def receive_data(self, data: bytes) -> bytes:
        """Decode and check every complete line, and encode the answers. Raises MeetingFailed for a wrong line."""
        heard = self._rest + data
        next_serial, answer_encoders = self._next_serial, self._answer_encoders
        unpack_head = HEAD.unpack_from
        answers: list[bytes] = []
        at, end_of_data = 0, len(heard)
        while end_of_data - at >= HEAD.size:
            length, serial = unpack_head(heard, at)
            end = at + SERIAL_BYTES + length
            if end > end_of_data:
                if length > LINE_BYTES_MAX:
                    raise MeetingFailed(f"a line of {length} bytes; at most {LINE_BYTES_MAX} are allowed")
                break
            text = heard[at + HEAD.size : end]
            # One comparison finds an unknown text, a lost line and a line that comes twice.
            if next_serial.get(text) != serial:
                raise MeetingFailed(f"unexpected line: serial {serial}, {text.decode(errors='replace')!r}")
            next_serial[text] = serial + 1
            if text in answer_encoders:
                encoder, answer_length, answer = answer_encoders[text]
                answers.append(encoder.pack(answer_length, serial, answer))
            at = end
        if max(next_serial.values()) > self.meetings:
            raise MeetingFailed(f"more than {self.meetings} meetings")
        self._rest = heard[at:]
        return b"".join(answers)


def line_encoder(text: bytes) -> tuple[struct.Struct, int, bytes]:
    """A Struct that packs (length, serial, text) as one line, with the length and the text to give it."""
    return struct.Struct(f"{HEAD.format}{len(text)}s"), SERIAL_BYTES + len(text), text


class Meeting(asyncio.Protocol):
    """One side on its connection."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._may_ask = asyncio.Event()
        self._ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._last_answers = b""
        self._is_finished = False
        self._begun = 0.0

    async def hold(self) -> float:
        """Ask everything and wait for the end; the seconds that it took. Raises MeetingFailed."""
        while not self._transport.is_closing() and (questions := self._side.ask(ASK_MEETINGS)):
            self._transport.write(questions)
            await self._may_ask.wait()
            await asyncio.sleep(0)  # reads and writes take turns
        self._finish_if_done()
        return await self._ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._may_ask.set()
        self._begun = time.perf_counter()

    def data_received(self, data: bytes) -> None:
        try:
            answers = self._side.receive_data(data)
        except MeetingFailed as failure:
            self._end(failure)
            self._transport.abort()
            return
        if self._side.part.leaves_last and self._side.has_heard_all_questions:
            # Li leaves after Zhang's last answer, so Zhang keeps it until Li has said everything.
            self._last_answers += answers
        else:
            self._transport.write(answers)
        # Two sides cannot both come to this. Let A be the last that stopped asking. From then on B hears only questions
        # that A had sent or buffered before: UNSENT_BYTES_MAX, one write and two kernel buffers, some 10 MiB at most.
        # Their answers are half as long again, so B owes far less than OWED_BYTES_MAX and reads on.
        if self._transport.get_write_buffer_size() > OWED_BYTES_MAX:
            self._transport.pause_reading()
        self._finish_if_done()

    def pause_writing(self) -> None:
        self._may_ask.clear()

    def resume_writing(self) -> None:
        self._may_ask.set()
        self._transport.resume_reading()

    def eof_received(self) -> None:
        """Let the transport close itself, which sends what is left first."""

    def connection_lost(self, error: Exception | None) -> None:
        self._may_ask.set()  # ends the loop in `hold`
        if not self._side.has_heard_all:
            self._end(MeetingFailed(f"the peer left before it had said every line; missing are {self._side.missing}"))
        elif error is not None or not self._side.has_asked_all:
            self._end(MeetingFailed("the peer left before it had heard every line"))
        else:
            self._end(None)

    def _finish_if_done(self) -> None:
        # Both the last read and the end of `hold` come here, and after `write_eof` a second write would be an error.
        if self._is_finished or not (self._side.has_heard_all and self._side.has_asked_all):
            return
        self._is_finished = True
        if self._side.part.leaves_last:
            self._transport.write(self._last_answers)
            self._transport.write_eof()  # the peer's own end ends the connection
        else:
            self._transport.close()

    def _end(self, failure: MeetingFailed | None) -> None:
        if self._ended.done():
            return
        if failure is None:
            self._ended.set_result(time.perf_counter() - self._begun)
        else:
            self._ended.set_exception(failure)


async def listen(listener: socket.socket, meetings: int) -> float:
    """Zhang's side, with the first peer that connects."""
    loop = asyncio.get_running_loop()
    with listener:
        listener.setblocking(False)
        connection, _ = await loop.sock_accept(listener)
    _, meeting = await loop.connect_accepted_socket(lambda: Meeting(Side(ZHANG, meetings)), connection)
    return await meeting.hold()


async def dial(host: str, port: int, meetings: int) -> float:
    """Li's side."""
    loop = asyncio.get_running_loop()
    _, meeting = await loop.create_connection(lambda: Meeting(Side(LI, meetings)), host, port)
    return await meeting.hold()


async def meet_in_two_processes(meetings: int) -> float:
    """Zhang's side here and Li's in a child process."""
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    words = [sys.executable, __file__, "dial", f"{host}:{port}", "--meetings", str(meetings)]
    li = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
    zhang = asyncio.create_task(listen(listener, meetings))
    if await li.wait() and not zhang.done():
        zhang.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await zhang
        raise MeetingFailed("the process of Li failed")
    return await zhang


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The duplex exercise; without arguments both sides in two processes.")
    parser.add_argument("side", nargs="?", choices=("listen", "dial"), help="Zhang's side alone, or Li's")
    parser.add_argument("address", nargs="?", metavar="HOST:PORT")
    parser.add_argument("--meetings", "-n", type=int, default=100_000, metavar="N", help="default: %(default)s")
    options = parser.parse_args(words)
    host, _, port = (options.address or "127.0.0.1:0").rpartition(":")
    if (options.side is None) != (options.address is None) or not port.isdecimal() or options.meetings < 0:
        parser.print_usage(sys.stderr)
        return EXIT_USAGE
    try:
        if options.side == "listen":
            listener = socket.create_server((host, int(port)))
            print("listening at {}:{}".format(*listener.getsockname()), file=sys.stderr, flush=True)
            seconds = asyncio.run(listen(listener, options.meetings))
        elif options.side == "dial":
            seconds = asyncio.run(dial(host, int(port), options.meetings))
        else:
            seconds = asyncio.run(meet_in_two_processes(options.meetings))
    except OSError as error:
        print(f"meet: there is no connection: {error.strerror or error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except MeetingFailed as failure:
        print(f"meet: {failure}", file=sys.stderr)
        return EXIT_WRONG
    print(f"meetings {options.meetings} lines {6 * options.meetings} seconds {seconds:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

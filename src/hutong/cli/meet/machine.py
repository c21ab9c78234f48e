"""One side of the exercise: what it hears in, what it answers out, what it may still ask.

In each meeting Zhang asks Z0 and Li answers L1; Li asks L2 and L4 and Zhang answers Z3 and Z5. A question and its
answer carry the meeting's serial, and nobody waits for an answer before saying the next line.

Strategy: each side says what it asks and what it answers in the order of serials, so one number for each text it hears
says exactly which serial is due: a line that is repeated, left out or out of range is not the one that is due. Works on
runs; a run that is not due as a whole is taken line by line, so that the line at fault is the one that is named.

Knows nothing of connections: how fast a side asks, and whether it is listened to, is its driver's.
"""

from dataclasses import dataclass
from typing import Final

from hutong.cli.meet.runs import Phrase, Run, RunDecoder
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

MEETINGS_MAX: Final = (1 << 32) - 1  # serials are 32 bits

Z0: Final = "吃了没，您吶?"  # noqa: RUF001  # the exercise writes it so
Z3: Final = "嗨！吃饱了溜溜弯儿。"  # noqa: RUF001
Z5: Final = "回头去给老太太请安！"  # noqa: RUF001
L1: Final = "刚吃。"
L2: Final = "您这，嘛去？"  # noqa: RUF001
L4: Final = "有空家里坐坐啊。"


@dataclass(frozen=True, slots=True)
class Part:
    """What a neighbour asks in each meeting, what it is answered, and what it answers itself; None needs no answer."""

    name: str
    asks: Phrase
    is_answered: Phrase
    answers: dict[Phrase, Phrase | None]


ZHANG: Final = Part(
    "zhang",
    Phrase(Z0),
    Phrase(L1),
    {Phrase(L1): None, Phrase(L2): Phrase(Z3), Phrase(L4): Phrase(Z5), Phrase(L2, L4): Phrase(Z3, Z5)},
)
LI: Final = Part(
    "li",
    Phrase(L2, L4),
    Phrase(Z3, Z5),
    {Phrase(Z0): Phrase(L1), Phrase(Z3): None, Phrase(Z5): None, Phrase(Z3, Z5): None},
)


class Side:
    """Zhang's or Li's side of so many meetings. `failure` names the first line heard that is not due, if there is one.

    With `line_by_line` each line is decoded, checked, answered and encoded alone.
    """

    def __init__(self, part: Part, meetings: int, *, line_by_line: bool = False) -> None:
        """Raises ValueError where meetings is not in 0..MEETINGS_MAX."""
        if not 0 <= meetings <= MEETINGS_MAX:
            raise ValueError(f"{meetings} meetings; 0 to {MEETINGS_MAX} are possible")
        self.part = part
        self.meetings = meetings
        self.failure: ProtocolError | None = None
        self.asked = 0  # meetings
        self.heard_total = 0  # lines
        self._decoder = RunDecoder(part.answers, line_by_line=line_by_line)
        self._due = {text: 0 for phrase in part.answers for text in phrase.texts}  # the serial with which it comes next

    @property
    def expected_total(self) -> int:
        """Lines to be heard before all is done."""
        return self.meetings * len(self._due)

    @property
    def is_done(self) -> bool:
        """Whether every line was heard and every line given out to be said."""
        return self.heard_total == self.expected_total and self.asked == self.meetings and self.failure is None

    @property
    def missing(self) -> dict[str, int]:
        """How many lines of each text were not heard yet."""
        return {text: self.meetings - due for text, due in self._due.items() if due < self.meetings}

    @property
    def unanswered(self) -> int:
        """Meetings that were asked about and not wholly answered yet."""
        return self.asked - min([self._due[text] for text in self.part.is_answered.texts])

    @property
    def has_heard_questions(self) -> bool:
        """Whether the neighbour has asked all that it will, so that what is missing, if anything, are answers."""
        answers = self.part.is_answered.texts
        return all(due == self.meetings for text, due in self._due.items() if text not in answers)

    def ask(self, bytes_max: int) -> Buffer:
        """The next questions, as many as fit but at least one meeting's; empty once all is asked."""
        phrase = self.part.asks
        count = min(self.meetings - self.asked, max(1, bytes_max // phrase.size))
        first, self.asked = self.asked, self.asked + count
        return phrase.encode(first, count)

    def receive_data(self, data: Buffer) -> list[Buffer]:
        """What the neighbour said; returns the answers to it. After a `failure` nothing is heard any more."""
        said: list[Buffer] = []
        if self.failure is not None:
            return said
        for run in self._decoder.receive_data(data):
            if not self._hear(run, said):
                return said
        self.failure = self._decoder.failure
        return said

    def _hear(self, run: Run, said: list[Buffer]) -> bool:
        """False if a line was not due."""
        phrase, first, count = run
        due, after = self._due, first + count
        if after > self.meetings:
            return self._hear_lines(run, said)
        for text in phrase.texts:
            if due[text] != first:
                return self._hear_lines(run, said)
        for text in phrase.texts:
            due[text] = after
        self.heard_total += count * len(phrase.texts)
        answer = self.part.answers[phrase]
        if answer is not None:
            said.append(answer.encode(first, count))
        return True

    def _hear_lines(self, run: Run, said: list[Buffer]) -> bool:
        """The run is not due as a whole: find out which line is not."""
        alone = {phrase.texts: phrase for phrase in self.part.answers}
        for serial, text in run.lines():
            due = self._due[text]
            if serial >= self.meetings:
                self.failure = ProtocolError(f"serial {serial} of {text!r} is out of range: {self.meetings} meetings")
            elif serial != due:
                self.failure = ProtocolError(f"serial {serial} of {text!r} where {due} is due")
            else:
                self._hear(Run(alone[(text,)], serial, 1), said)
                continue
            return False
        return True

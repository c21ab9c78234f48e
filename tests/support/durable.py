"""Publishing under load, consumer processes to be killed, and the checker that judges what became of every message.

Strategy: messages have unique ids and say what their handler does. What was published and acknowledged is kept with
its place; what handlers did stands in a diary that outlives them. In the end every acknowledged message must have been
handled, or be a dead letter if it fails always, and nobody else may be one.
"""

import asyncio
import itertools
import json
import pathlib
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from bench.processes import ReadyProcess
from tests.support.confluent import read_partition
from tests.support.waiting import until

from hutong.bus import DeliveryOptions, EventBus, Headers
from hutong.bus.durable import PublishFailed, Stored
from hutong.bus.durable.kafka import KafkaLog
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime

WINDOW: Final = 200
ALWAYS: Final = 1_000_000
ROOT: Final = pathlib.Path(__file__).parents[2]
Body = dict[str, Any]


def sometimes_failing(number: int) -> Body:
    """Of a hundred messages one fails always and three fail twice."""
    fails = {7: ALWAYS, 23: 2, 41: 2, 83: 2}.get(number % 100)
    return {"id": number} if fails is None else {"id": number, "fails": fails}


class PublishingLoad:
    """Publishes to a durable address from a thread and loop of its own while entered, so many a second at most."""

    def __init__(
        self, address: str, topic: str, body_of: Callable[[int], Body] = sometimes_failing, per_second_max: int = 1_000
    ) -> None:
        self.stored: dict[int, Stored] = {}
        self.failed: list[PublishFailed] = []
        self._address = address
        self._topic = topic
        self._body_of = body_of
        self._per_second_max = per_second_max
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="publishing-load")
        self._error: BaseException | None = None

    def __enter__(self) -> "PublishingLoad":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def wait_for(self, more: int) -> None:
        wanted = len(self.stored) + more
        until(
            lambda: self._stopping.wait(0.01) or len(self.stored) >= wanted, deadline_s=120, what=f"{more} acknowledged"
        )

    async def _run(self) -> None:
        log = KafkaLog(self._address, settings={"reconnect.backoff.max.ms": 200, "log_level": 0})
        try:
            async with (
                Runtime(SystemClock()) as runtime,
                EventBus(runtime, log=log) as bus,
                asyncio.TaskGroup() as group,
            ):
                numbers = itertools.count()
                for _ in range(WINDOW):
                    group.create_task(self._publish(bus, numbers))
        except BaseException as error:  # noqa: BLE001  # raised by whoever leaves
            self._error = error

    async def _publish(self, bus: EventBus, numbers: "itertools.count[int]") -> None:
        while not self._stopping.is_set():
            number = next(numbers)
            headers = Headers({"hutong-key": str(number % 50)})
            try:
                stored = await bus.publish(
                    f"topic:{self._topic}", self._body_of(number), DeliveryOptions(headers=headers)
                )
                assert stored is not None
                self.stored[number] = stored
            except PublishFailed as error:
                self.failed.append(error)
            await asyncio.sleep(WINDOW / self._per_second_max)


class Worker:
    """A consumer process, which may be killed and started again."""

    def __init__(self, folder: pathlib.Path, name: str = "worker", **options: Any) -> None:
        self.log_path = folder / f"{name}.log"
        self.diary_path = folder / "diary"
        self._options = options
        self._process: ReadyProcess | None = None

    def start(self) -> "Worker":
        command = [
            sys.executable,
            "-m",
            "tests.support.durable_worker",
            str(self.diary_path),
            json.dumps(self._options),
        ]
        environment = {"PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        self._process = ReadyProcess(command, log_path=str(self.log_path), environment=environment).start()
        return self

    @property
    def process(self) -> ReadyProcess:
        assert self._process is not None, "not started"
        return self._process

    def kill(self) -> None:
        self.process.process.kill()
        self.process.wait()

    def stop(self) -> int:
        return self.process.terminate()

    def has_ended_or(self, is_done: Callable[[], bool], deadline_s: float = 60.0) -> bool:
        """Waits until the process has ended by itself (True), or until it is done (False)."""
        pause = threading.Event()
        done = until(
            lambda: pause.wait(0.02) or ("ended" if not self.process.is_running else "done" if is_done() else ""),
            deadline_s=deadline_s,
            what=f"its end or its work ({self.process.log_tail()})",
        )
        return done == "ended"

    def wait_until_dead(self) -> int:
        return self.process.wait(120)

    def __enter__(self) -> "Worker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.is_running:
            self._process.__exit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class Line:
    what: str
    id: int
    attempt: int
    partition: int
    offset: int
    at_ms: int
    life: int  # the process


def read_diary(path: pathlib.Path) -> list[Line]:
    lines = path.read_text().splitlines() if path.exists() else []
    words = [line.split() for line in lines]
    return [Line(what, *map(int, numbers)) for what, *numbers in words]


def handled_count(path: pathlib.Path) -> int:
    return path.read_bytes().count(b"handled ") if path.exists() else 0


@dataclass
class Verdict:
    """`problems` is empty where every promise was kept."""

    problems: list[str] = field(default_factory=list)
    messages: int = 0
    handled_again: int = 0  # deliveries of messages that had been handled before
    dead: int = 0
    dead_again: int = 0
    lives: int = 0

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.handled_again} handled again, {self.dead} dead letters "
            f"({self.dead_again} twice), {self.lives} processes, {len(self.problems)} problems"
        )


def dead_letters(address: str, topic: str) -> list[tuple[int, dict[str, str]]]:
    """The id and what the headers say, of each."""
    letters = []
    for message in read_partition(address, topic):
        headers: list[Any] = list(message.headers() or ())
        said = {name: (value or b"").decode() for name, value in headers}
        told = {name.removeprefix("hutong-dead-"): text for name, text in said.items()}
        letters.append((json.loads(message.value() or b"null")["id"], told))
    return letters


def judge(
    stored: dict[int, Stored],
    body_of: Callable[[int], Body],
    diary: Sequence[Line],
    letters: Sequence[tuple[int, dict[str, str]]],
    *,
    attempts: int,
    group: str,
    first_delay_ms: int,
) -> Verdict:
    handled = Counter(line.id for line in diary if line.what == "handled")
    dead = Counter(number for number, _ in letters)
    verdict = Verdict(messages=len(stored), dead=len(dead), lives=len({line.life for line in diary}))
    verdict.handled_again = sum(handled.values()) - len(handled)
    verdict.dead_again = sum(dead.values()) - len(dead)
    say = verdict.problems.append
    for number in stored:
        is_hopeless = body_of(number).get("fails", 0) >= attempts
        if is_hopeless and not dead[number]:
            say(f"message {number} fails always and is no dead letter")
        elif is_hopeless and handled[number]:
            say(f"message {number} fails always and was handled")
        elif not is_hopeless and not handled[number]:
            say(f"message {number} was lost")
        elif not is_hopeless and dead[number]:
            say(f"message {number} works and is a dead letter")
    for number, told in letters:
        _check_letter(say, number, told, stored.get(number), attempts, group)
    _check_order(say, diary)
    _check_pauses(say, diary, first_delay_ms)
    return verdict


def _check_letter(
    say: Callable[[str], None], number: int, told: dict[str, str], place: Stored | None, attempts: int, group: str
) -> None:
    expected = {
        "error-type": "ValueError",
        "error-message": f"message {number} does not work",
        "attempts": str(attempts),
        "group": group,
    }
    if place is not None:
        expected |= {"topic": place.topic, "partition": str(place.partition), "offset": str(place.offset)}
    wrong = {name: told.get(name) for name, text in expected.items() if told.get(name) != text}
    if wrong:
        say(f"the dead letter of message {number} says {wrong}")


def _check_order(say: Callable[[str], None], diary: Sequence[Line]) -> None:
    """In one process a partition's offsets begin in order, each again only as its own next attempt."""
    last: dict[tuple[int, int], Line] = {}
    for line in diary:
        if line.what == "begun":
            before = last.get((line.life, line.partition))
            if before and not (line.offset > before.offset or line.attempt == before.attempt + 1 or line.attempt == 1):
                say(f"out of order: {line} after {before}")
            last[line.life, line.partition] = line


def _check_pauses(say: Callable[[str], None], diary: Sequence[Line], first_delay_ms: int) -> None:
    """Between a failure and the next attempt of the same process lies the back-off, less a fifth for its jitter."""
    failed: dict[tuple[int, int], Line] = {}
    seen: dict[int, int] = defaultdict(int)
    for line in diary:
        if line.what == "failed":
            failed[line.life, line.id] = line
        elif line.what == "begun" and line.attempt > 1:
            before = failed.get((line.life, line.id))
            pause_ms = first_delay_ms * 2 ** (line.attempt - 2) * 0.8 - 2  # clocks are cut to milliseconds
            seen[line.attempt] += 1
            if before is None or line.at_ms - before.at_ms < pause_ms:
                say(f"attempt {line.attempt} of message {line.id} came too early after {before}")
    if not seen:
        say("nothing was ever tried again: the load tests nothing")


def wait_for_all(
    diary: pathlib.Path, stored: dict[int, Stored], body_of: Callable[[int], Body], deadline_s: float
) -> None:
    """Until every message that can be handled has been; what is missing is left to the checker."""
    wanted = {number for number in stored if body_of(number).get("fails", 0) < ALWAYS}
    give_up, pause = time.monotonic() + deadline_s, threading.Event()
    while time.monotonic() < give_up:
        if not wanted - {line.id for line in read_diary(diary) if line.what == "handled"}:
            return
        pause.wait(0.2)

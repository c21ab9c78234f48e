"""Java's and Go's producers under load, in processes of their own, on record like those of `load`.

Strategy: a program says a line for each record that it sends and for what became of it, and one for each transaction;
a thread reads them. It stops when its standard input ends. A transaction of which nothing is said is unknown.
"""

import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.cluster_load import PARTITIONS, TOPIC, TRANSACTED, TRANSACTION_RECORDS, ClusterLoad, Transactions
from tests.support.golang import kafka_clients
from tests.support.kafka_tools import peer_jars
from tests.support.load import AcknowledgedLoad
from tests.support.maven import java_program

# Java's last transaction: a flush fails when the transaction has timed out (30 s), six attempts to end it take
# max.block.ms (10 s) each, and a close 10 s. The rest is for a machine that is busy.
STOP_S_MAX: Final = 30.0 + 6 * 10.0 + 10.0 + 30.0
STACKS_S: Final = 2.0  # for the stacks of all threads, which both programs write to standard error at SIGQUIT
_JAVA: Final = Path(__file__).parents[1] / "compat" / "java_kafka" / "KafkaLoad.java"
_CLIENTS: Final = "org.apache.kafka:kafka-clients:4.3.0"


class ForeignLoad(AcknowledgedLoad, Transactions):
    """An idempotent producer of `TOPIC` and a transactional one of `TRANSACTED`, while entered."""

    def __init__(self, words: Sequence[str], bootstrap: str, label: str, per_second: int, log: Path) -> None:
        AcknowledgedLoad.__init__(self, label)
        Transactions.__init__(self, label)
        self._words = [*words, bootstrap, TOPIC, TRANSACTED, str(PARTITIONS), label, str(per_second)]
        self._log = log
        self._stacks: list[str] = []
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        log = self._entered.enter_context(self._log.open("wb"))
        self._process = self._entered.enter_context(
            subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        )
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        giving_up = threading.Timer(STOP_S_MAX, self._give_up)
        giving_up.start()
        try:
            super().__exit__(kind, error, trace)
        finally:
            giving_up.cancel()
            self._entered.close()

    def _give_up(self) -> None:
        """End it, and have it say first where its threads are."""
        self._process.send_signal(signal.SIGQUIT)
        threading.Event().wait(STACKS_S)
        self._process.kill()

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._note(*line.rstrip(b"\n").split(b" ", 3))
        sent = {value for sent in self.history.invoked.values() for each in sent.values() for value in each}
        missing = sent.difference(*self.history.acknowledged.values())
        assert self._process.wait() == 0, "\n".join(
            (f"{self.label} lacks {sorted(missing)[:9]}", *self._stacks, self._log.read_text()[-9000:])
        )

    def _note(self, verb: bytes, *words: bytes) -> None:
        if verb == b"sent":
            self.history.invoke(self.label, (TOPIC, int(words[0])), words[1])
        elif verb == b"acknowledged":
            self.note_acknowledged((TOPIC, int(words[0])), words[1], int(words[2]))
        elif verb == b"failed":
            self.errors.append(b" ".join(words).decode())
        elif verb in (b"committed", b"aborted", b"unknown"):
            values = {b"%s-%d" % (words[0], part) for part in range(TRANSACTION_RECORDS)}
            {b"committed": self.committed, b"aborted": self.aborted}.get(verb, self.unknown).update(values)
        else:
            self._stacks.append(b" ".join((verb, *words)).decode(errors="replace"))  # Java's go to standard output


class NetworkLoad(ClusterLoad):
    """The load of `ClusterLoad`, and Java's and Go's clients."""

    def __init__(self, bootstrap: str, folder: Path, per_second: int) -> None:
        """Skips the test where a client cannot be built."""
        super().__init__(bootstrap, per_second)
        java = java_program("kafka-load", _JAVA, _CLIENTS, "org.slf4j:slf4j-nop:1.7.36", held=peer_jars())
        go = [str(kafka_clients()), "load"]
        self.foreign = [
            ForeignLoad(words, bootstrap, label, per_second, folder / f"{label}.log")
            for label, words in (("java", java), ("go", go))
        ]
        self.loads += self.foreign

    @property
    def all_transactions(self) -> Sequence[Transactions]:
        return [self.transactions, *self.foreign]

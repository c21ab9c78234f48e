"""A well-behaved client beside an attack: its records keep being acknowledged."""

import threading
from typing import Final

from bench.kafka_bytes import ProduceReplyLayout, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from tests.support.waiting import until

TOPIC: Final = "neighbour"
WAIT_S: Final = 0.05


class Neighbour:
    """Ping-pong on one connection in a thread. Leaving raises what it met."""

    def __init__(self, address: str) -> None:
        create_topic(address, TOPIC)
        self.acknowledged = 0
        self._connection = RawConnection(address)
        self._stopping = threading.Event()
        self._progress = threading.Condition()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=TOPIC)

    def __enter__(self) -> "Neighbour":
        self._thread.start()
        self.must_go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._connection.close()
        if self._error:
            raise self._error

    def must_go_on(self, records: int = 20) -> None:
        """Returns when that many further records were acknowledged."""
        goal = self.acknowledged + records

        def reached() -> bool:
            with self._progress:
                self._progress.wait(WAIT_S)
                return self.acknowledged >= goal or self._error is not None

        until(reached, what="the neighbour's progress")

    def _run(self) -> None:
        request, layout = produce_request(TOPIC, record_batch([b"still here"])), ProduceReplyLayout.of(TOPIC)
        try:
            while not self._stopping.is_set():
                code = layout.error_code(self._connection.call(request))
                assert code == 0, f"error {code}"
                with self._progress:
                    self.acknowledged += 1
                    self._progress.notify_all()
        except (OSError, AssertionError) as error:
            self._error = error

"""Dead letters of a consumer: messages that were given up, on their way into its dead-letter topic.

Knows no machine: the caller decides on an attempt that failed.
"""

from collections.abc import Callable

from hutong.bus.durable.consume.log import ConsumerLog
from hutong.bus.durable.consume.messages import RecordEntry
from hutong.bus.durable.options import ConsumerOptions
from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.records import Death, StoredRecord, dead_letter
from hutong.foundation.errors import HutongError, LimitExceeded


def stored_record(entry: RecordEntry) -> StoredRecord:
    record = entry.record
    assert isinstance(record, StoredRecord), "the fetcher brings nothing else"
    return record


class DeadLetters:
    """`post` runs a call on the consumer's loop: the log reports on threads of its own."""

    def __init__(
        self, log: ConsumerLog, options: ConsumerOptions, post: Callable[[Callable[[], object]], None]
    ) -> None:
        self._log = log
        self._options = options
        self._post = post

    def send(self, entry: RecordEntry, then: Callable[[RecordEntry, Stored | HutongError], None]) -> None:
        """Store the entry's message as a dead letter. `then` is called once on the loop, with the outcome."""
        topic = self._options.dead_letter
        assert topic is not None, "the machine knows if there are dead letters"
        death = Death(
            self._options.group,
            entry.error_type,
            entry.error_text,
            entry.attempts,
            entry.first_failure_ms,
            entry.last_failure_ms,
        )
        letter = dead_letter(stored_record(entry), topic, death)

        def publish() -> None:
            try:
                self._log.publish_record(letter, lambda outcome: self._post(lambda: then(entry, outcome)))
            except (LimitExceeded, PublishFailed) as error:
                then(entry, error)

        # The topic is made with its first letter, as most consumers never need it.
        self._log.make_dead_letter_topic(topic, lambda: self._post(publish))

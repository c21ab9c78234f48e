"""Numbers of letters: how many there are, how many were redriven, and the reasons of the newest. Blocks.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from hutong.bus.durable.failures import cause_of
from hutong.console.dead_letters.conventions.letter import DeadLetter
from hutong.console.dead_letters.redriving.clients import redrive_group
from hutong.console.dead_letters.redriving.progress import RedriveProgress, UnreadableProgress, decode_progress
from hutong.console.dead_letters.redriving.tally import count_one
from hutong.console.groups.reading import offsets_at
from hutong.rest.limits import CALL_S_MAX

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """`letters` are offsets: markers of transactions count, too. `problem` says why no letter counts as done."""

    letters: int
    done: int
    problem: str | None = None


def count_letters(admin: AdminClient, partitions: Mapping[str, Sequence[int]]) -> dict[str, LetterCounts]:
    """The counts of topics by their partitions. Raises KafkaException."""
    places = [(topic, partition) for topic, numbers in partitions.items() for partition in numbers]
    begins = offsets_at(admin, {place: OffsetSpec.earliest() for place in places})
    ends = offsets_at(admin, {place: OffsetSpec.latest() for place in places})
    found = {}
    for topic, progress in progress_of(admin, partitions).items():
        known = [each for each in partitions[topic] if (topic, each) in begins and (topic, each) in ends]
        letters = sum(ends[topic, each] - begins[topic, each] for each in known)
        if isinstance(progress, str):
            found[topic] = LetterCounts(letters, 0, progress)
            continue
        done = sum(
            progress[each].count_done(begins[topic, each], ends[topic, each]) for each in known if each in progress
        )
        found[topic] = LetterCounts(letters, done)
    return found


def progress_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, dict[int, RedriveProgress] | str]:
    """The progress of redrives by topic and partition, or a sentence on why it is not known. Raises KafkaException."""
    asked = {
        topic: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(redrive_group(topic))], request_timeout=CALL_S_MAX
        )
        for topic in topics
    }
    found: dict[str, dict[int, RedriveProgress] | str] = {}
    for topic, futures in asked.items():
        (future,) = futures.values()
        try:
            found[topic] = {
                each.partition: decode_progress(each.offset, each.metadata)
                for each in future.result(CALL_S_MAX).topic_partitions
                if each.topic == topic and each.offset >= 0
            }
        except UnreadableProgress as error:
            found[topic] = (
                f"The progress of redrives cannot be read: {error}. Delete the group {redrive_group(topic)} to begin "
                "anew; letters that were sent back would then be sent again."
            )
        except KafkaException as error:
            # Who may only look needs no right to redrive.
            if cause_of(error).code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise
            found[topic] = (
                f"You may not see the group {redrive_group(topic)}, so letters that went back are not marked."
            )
    return found


def count_reasons(letters: Iterable[DeadLetter]) -> list[dict[str, object]]:
    """The reasons, the most frequent first."""
    counts: dict[str, int] = {}
    for letter in letters:
        count_one(counts, letter.reason)
    return [{"reason": reason, "count": count} for reason, count in sorted(counts.items(), key=lambda each: -each[1])]

"""Consumers of groups that live between requests: `POST /consumers/GROUP` makes one, others read by its address.

An instance is its maker's alone: others do not find it. One that nobody asks for five minutes leaves its group.

Decides nothing about HTTP.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec
from confluent_kafka import TopicPartition

from hutong.rest.limits import INSTANCE_IDLE_MS, INSTANCE_NAME_CHARACTERS_MAX
from hutong.rest.reading.reader import RecordReader
from hutong.rest.records.encoding import no_registry
from hutong.rest.v2.forms import BINARY, FORMS, OF_SCHEMAS
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.bus.durable.records import StoredRecord
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.rest.records.decoding import RecordDecoder

_NAME_BYTES: Final = 12
_RESETS: Final = ("earliest", "latest", "none")
_FLAGS: Final = {"true": True, "false": False}


class InstanceBody(msgspec.Struct, frozen=True):
    """Settings of a new instance, by Kafka's names. Flags and numbers may be strings, as in the REST proxy."""

    name: str | None = None
    format: str = BINARY
    reset: str = msgspec.field(name="auto.offset.reset", default="latest")
    commits: str | bool = msgspec.field(name="auto.commit.enable", default=True)


class Instance:
    """A member of a group, by one consumer. `positions` are those behind what was read last, by place."""

    def __init__(
        self, name: str, group: str, form: str, account: Account, reader: RecordReader, *, commits: bool
    ) -> None:
        self.name = name
        self.group = group
        self.form = form
        self.account = account
        self.reader = reader
        self.commits = commits
        self.used_ms = 0
        self.is_reading = False
        self.topics: list[str] = []
        self.positions: dict[tuple[str, int], int] = {}

    def take(self, records: list[StoredRecord]) -> None:
        """Note what was read, and has reached the request that asked for it."""
        self.reader.confirm()
        for record in records:
            self.positions[record.topic, record.partition] = record.offset + 1

    def commit(self, offsets: list[TopicPartition]) -> None:
        """Commit positions. Blocks. Raises KafkaException."""
        if offsets:
            self.reader.consumer.commit(offsets=offsets, asynchronous=False)

    @property
    def read_offsets(self) -> list[TopicPartition]:
        """All that was read, as positions to commit."""
        return [TopicPartition(*place, offset) for place, offset in self.positions.items()]


class Instances:
    """All instances of the gateway, by user, group and name."""

    def __init__(self, gateway: Gateway, decoder: RecordDecoder) -> None:
        self._gateway = gateway
        self._decoder = decoder
        self._instances: dict[tuple[str, str, str], Instance] = {}

    def create(self, account: Account, group: str, body: InstanceBody) -> Instance:
        """Make one. Raises WebRefusal: 409 for a name that is taken, 422 for a setting that cannot be, 429."""
        name = body.name or f"rest-consumer-{secrets.token_urlsafe(_NAME_BYTES)}"
        commits = _FLAGS.get(body.commits.lower()) if isinstance(body.commits, str) else body.commits
        if body.format not in FORMS or body.reset not in _RESETS or commits is None:
            words = f"format is one of {', '.join(FORMS)}, auto.offset.reset one of {', '.join(_RESETS)}"
            raise WebRefusal(422, words, 42204)
        if body.format in OF_SCHEMAS and not self._decoder.is_there:
            raise no_registry()
        if not name.isprintable() or len(name) > INSTANCE_NAME_CHARACTERS_MAX:
            raise WebRefusal(422, f"a name has at most {INSTANCE_NAME_CHARACTERS_MAX} characters", 42204)
        key = (account.user, group, name)
        if key in self._instances:
            raise WebRefusal(409, "Consumer with specified consumer ID already exists.", 40902)
        self._gateway.take_reader(account)
        try:
            reset = "error" if body.reset == "none" else body.reset
            reader = RecordReader(account.properties, group, **{"auto.offset.reset": reset})
        except BaseException:
            self._gateway.give_reader_back(account)
            raise
        instance = self._instances[key] = Instance(name, group, body.format, account, reader, commits=commits)
        instance.used_ms = self._gateway.clock.monotonic_ms()
        return instance

    def find(self, account: Account, group: str, name: str) -> Instance:
        """The user's instance. Raises WebRefusal(404)."""
        instance = self._instances.get((account.user, group, name))
        if instance is None:
            raise WebRefusal(404, "Consumer instance not found.", 40403)
        instance.used_ms = self._gateway.clock.monotonic_ms()
        return instance

    def remove(self, instance: Instance) -> None:
        """Let it leave its group."""
        self._instances.pop((instance.account.user, instance.group, instance.name), None)
        self._gateway.close_soon(instance.account, instance.reader)

    def remove_idle(self) -> None:
        """Let those leave that nobody has asked for a while."""
        before_ms = self._gateway.clock.monotonic_ms() - INSTANCE_IDLE_MS
        for instance in [each for each in self._instances.values() if each.used_ms < before_ms]:
            self.remove(instance)

    def close(self) -> None:
        """Let all leave."""
        for instance in [*self._instances.values()]:
            self.remove(instance)

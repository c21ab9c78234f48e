"""Fetches and their actors: finds the group of a reader, and the rules by which the node shares the disk.

Decides nothing: `actors` says which group a reader belongs to, `groups.actor_configs` what its settings come to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.fetch.actors import Actor, MemberConnections, ReadingClient
from hutong.groups.actor_configs import DEFAULT, ActorRules, joined, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.handling.context import RequestContext
    from hutong.broker.handling.session import ClientSession
    from hutong.groups.configs import GroupConfigs


class ReadingGroups(Protocol):
    """A coordinator of one kind of groups, as far as reads are concerned."""

    def reads(self, group_id: str, topic: str) -> bool:
        """Return True if the group has members, and one of them subscribes to the topic."""
        ...


class ReadActors:
    """The actors of a node. `has_suspended` is True while any group is suspended."""

    def __init__(self, coordinators: Sequence[ReadingGroups], configs: GroupConfigs) -> None:
        self.has_suspended = False
        self.coordinators = coordinators
        self._configs = configs
        self._members = MemberConnections()
        configs.on_change.append(self._settings_changed)
        for group_id in configs:
            self._settings_changed(group_id)

    def note_member(self, context: RequestContext[object], group_id: str) -> None:
        """A request of a member of the group came on this connection, and was in order."""
        session = context.session
        # The connection may have ended while the answer waited for the disk: nothing would ever forget it.
        if not session.owner.has_ended:
            self._members.note(session.id, _reader_of(session, context.client_id), group_id)

    def forget(self, session: ClientSession) -> None:
        """The connection has ended, or a member has left its group by it."""
        self._members.forget(session.id)

    def of_fetch(self, session: ClientSession, client_id: str | None, topic: str) -> tuple[Actor, ActorRules]:
        """The actor of a fetch, which names no group."""
        actor = self._members.actor_of(session.id, _reader_of(session, client_id), topic, self._reads)
        if len(actor.groups) == 1:
            return actor, rules_of(self._configs, actor.groups[0])
        if actor.groups:
            return actor, joined([rules_of(self._configs, group_id) for group_id in actor.groups])
        return actor, DEFAULT

    def of_group(self, group_id: str, topic: str) -> tuple[Actor, ActorRules]:
        """The actor of a fetch that names its group (KIP-932)."""
        return Actor(topic, (group_id,)), rules_of(self._configs, group_id)

    def _reads(self, group_id: str, topic: str) -> bool:
        return any(coordinator.reads(group_id, topic) for coordinator in self.coordinators)

    def _settings_changed(self, _group_id: str) -> None:
        # Fetches from memory are looked up only while this is set: they are far more frequent than changes.
        self.has_suspended = any(rules_of(self._configs, group_id).is_suspended for group_id in self._configs)


def _reader_of(session: ClientSession, client_id: str | None) -> ReadingClient:
    return ReadingClient(str(session.principal), client_id or "", session.address)

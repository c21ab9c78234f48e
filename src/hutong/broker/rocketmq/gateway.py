"""The table of RocketMQ's requests, and what happens to all of them: failures are answered, members are notified."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.rocketmq.cluster.distant_clients import DistantChannel, DistantCommands
from hutong.broker.rocketmq.cluster.elsewhere import handed_over
from hutong.broker.rocketmq.context import RocketContext, RocketParts
from hutong.broker.rocketmq.figures import RocketFigures
from hutong.broker.rocketmq.metering import Metering
from hutong.broker.rocketmq.refusals import answer_of
from hutong.broker.rocketmq.requests import (
    r011_pull,
    r014_consumer_offsets,
    r029_log_offsets,
    r034_clients,
    r036_send_back,
    r037_end_transaction,
    r041_locks,
    r046_check_client,
    r105_route,
    r310_send,
    r324_reply,
    r370_recall,
)
from hutong.broker.rocketmq.requests.admin.table import ADMIN_HANDLERS
from hutong.broker.rocketmq.requests.pop import (
    r400_assignment,
    r200050_pop,
    r200051_ack,
    r200052_peek,
    r200151_batch_ack,
)
from hutong.broker.rocketmq.sends.plain_sends import PlainSends
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.rocketmq_configs import rules_of
from hutong.remoting.channels.answers import NOT_SUPPORTED, refusal
from hutong.remoting.channels.events import ChannelEventKind
from hutong.remoting.errors import RemotingError
from hutong.wire.rocketmq.codes import RequestCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hutong.foundation.timers import Timer
    from hutong.remoting.channels.answers import Answer, ReadyAnswer
    from hutong.remoting.channels.channel import Channel
    from hutong.remoting.channels.events import ChannelEvent
    from hutong.remoting.server import RemotingServer

LEADERS_SETTLE_MS: Final = 500
HANDLERS: Final[Mapping[RequestCode, Callable[[RocketContext], Answer]]] = {
    RequestCode.SEND_MESSAGE: r310_send.handle,
    RequestCode.SEND_MESSAGE_V2: r310_send.handle,
    RequestCode.SEND_BATCH_MESSAGE: r310_send.handle,
    RequestCode.SEND_REPLY_MESSAGE: r324_reply.handle,
    RequestCode.SEND_REPLY_MESSAGE_V2: r324_reply.handle,
    RequestCode.PULL_MESSAGE: r011_pull.handle,
    RequestCode.LITE_PULL_MESSAGE: r011_pull.handle,
    RequestCode.QUERY_CONSUMER_OFFSET: r014_consumer_offsets.handle_query,
    RequestCode.UPDATE_CONSUMER_OFFSET: r014_consumer_offsets.handle_update,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: r029_log_offsets.handle_search,
    RequestCode.GET_MAX_OFFSET: r029_log_offsets.handle_max,
    RequestCode.GET_MIN_OFFSET: r029_log_offsets.handle_min,
    RequestCode.HEART_BEAT: r034_clients.handle_heartbeat,
    RequestCode.UNREGISTER_CLIENT: r034_clients.handle_unregister,
    RequestCode.CONSUMER_SEND_MSG_BACK: r036_send_back.handle,
    RequestCode.END_TRANSACTION: r037_end_transaction.handle,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: r034_clients.handle_list,
    RequestCode.LOCK_BATCH_MQ: r041_locks.handle_lock,
    RequestCode.UNLOCK_BATCH_MQ: r041_locks.handle_unlock,
    RequestCode.CHECK_CLIENT_CONFIG: r046_check_client.handle,
    RequestCode.QUERY_ASSIGNMENT: r400_assignment.handle_query,
    RequestCode.SET_MESSAGE_REQUEST_MODE: r400_assignment.handle_mode,
    RequestCode.POP_MESSAGE: r200050_pop.handle,
    RequestCode.ACK_MESSAGE: r200051_ack.handle_ack,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: r200051_ack.handle_change,
    RequestCode.PEEK_MESSAGE: r200052_peek.handle,
    RequestCode.BATCH_ACK_MESSAGE: r200151_batch_ack.handle,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: r105_route.handle,
    **ADMIN_HANDLERS,
    RequestCode.RECALL_MESSAGE: r370_recall.handle,
}


class RocketGateway:
    """Serves RocketMQ's requests by a remoting server, once `serve` was called."""

    def __init__(self, parts: RocketParts, server: RemotingServer) -> None:
        self._parts = parts
        self._server = server
        self.figures = RocketFigures(parts.signatures)
        self._metering = Metering(self.figures)
        general = partial(self._received, r310_send.handle)
        self._sends = PlainSends(parts, self.figures, self._metering, general, server.post)
        self._notifying: Timer | None = None
        parts.notify_members = self.notify_members
        parts.channel_of = server.channel

    def serve(self) -> None:
        """Register all handlers, deliver what is delayed, and ask about half messages."""
        self._parts.schedule.start()
        self._parts.halves.start()
        for code, handle in HANDLERS.items():
            short = handle is r310_send.handle
            self._server.register(code, self._sends.process if short else partial(self._received, handle))
        self._server.add_listener(self._channel_event)
        broker = self._parts.broker
        broker.cluster.take_over(DistantCommands(self._process_distant).handle)
        broker.topics.on_standing.append(self._standing_changed)

    def close(self) -> None:
        """Deliver nothing more, and ask nobody."""
        self._sends.close()
        self._parts.schedule.close()
        self._parts.halves.close()
        self._parts.broker.cluster.take_over(None)
        self._parts.broker.topics.on_standing.remove(self._standing_changed)
        if self._notifying is not None:
            self._notifying.cancel()

    def expire_clients(self, now_ms: int) -> None:
        """Take out the clients that are silent for too long."""
        for group in self._parts.clients.expire(now_ms):
            self.notify_members(group)

    def notify_members(self, group: str) -> None:
        """Ask all members of a group to share out their queues anew; without this they do so every 20 s."""
        found = self._parts.clients.group(group)
        # The last one has left, or nobody wants to hear.
        if found is None or not rules_of(self._parts.broker.group_configs, group).notifies:
            return
        connections = {member.connection for member in found.members.values()}
        for channel in self._server.channels:
            if channel.peer.id in connections:
                self._notify(channel, group)

    def _standing_changed(self, _group: str) -> None:
        # All partition groups of a node that has died change within a moment.
        if self._notifying is None:
            now_ms = self._parts.broker.clock.monotonic_ms()
            self._notifying = self._parts.timers.add(now_ms + LEADERS_SETTLE_MS, self._notify_poppers)

    def _notify_poppers(self) -> None:
        """Have groups that pop ask for their queues anew: others lead them. Without this they do so every 20 s."""
        self._notifying = None
        for group in [*self._parts.clients.groups()]:
            if self._parts.broker.share_groups.rules_of(group.name).is_pop:
                self.notify_members(group.name)

    def _notify(self, channel: Channel, group: str) -> None:
        try:
            channel.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields={"consumerGroup": group}))
        # It does not read: it shares out its queues at its next turn.
        except RemotingError:
            return

    def _received(self, handle: Callable[[RocketContext], Answer], command: Command, channel: Channel) -> Answer:
        # What it is asked must have the form that it speaks itself: ali-ons reads no binary commands.
        channel.serialization = command.serialization
        return self._process(handle, command, channel)

    def _process(self, handle: Callable[[RocketContext], Answer], command: Command, channel: Channel) -> Answer:
        self.figures.begun(command)
        answer: Answer
        try:
            context = RocketContext(command, channel, self._parts)
            # A command that comes by another node is metered there.
            is_metered = self._parts.broker.meter.is_on and not context.is_handed_over
            at_its_place = partial(_handle_at_its_place, handle)
            answer = self._metering.process(at_its_place, context) if is_metered else at_its_place(context)
        # Also for bytes that no client sends: remoting would end the connection, and with it all that others wait for.
        except HutongError as error:
            answer = answer_of(error)
        if not isinstance(answer, Pending):
            self.figures.answered(command, answer)
            return answer
        pending: Pending[ReadyAnswer] = Pending()

        def ready(outcome: ReadyAnswer) -> None:
            self.figures.answered(command, outcome)
            pending.complete(outcome)

        answer.then(ready)
        return pending

    def _process_distant(self, command: Command, channel: DistantChannel) -> Answer:
        handle = HANDLERS.get(command.code)  # type: ignore[call-overload]  # any number may come
        # A node of a later version hands over what this one does not know.
        if handle is None:
            return refusal(NOT_SUPPORTED, f"request type {command.code} not supported")
        return self._process(handle, command, channel)  # type: ignore[arg-type]  # it has what handlers ask for

    def _channel_event(self, event: ChannelEvent) -> None:
        # IDLE and EXCEPTION are followed by it.
        if event.kind is not ChannelEventKind.CLOSE:
            return
        channel = event.channel
        for session in channel.attributes.get("sessions", {}).values():
            self._parts.broker.read_actors.forget(session)
            self._metering.forget(session)
        for group in self._parts.clients.disconnected(channel.peer.id):
            self.notify_members(group)


def _handle_at_its_place(handle: Callable[[RocketContext], Answer], context: RocketContext) -> Answer:
    try:
        return handle(context)
    except LedElsewhere as error:
        return handed_over(context, error)

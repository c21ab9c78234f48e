"""ClusterCommand (key 10000, version 0): an operator's command to the controller, by way of any node.

Hutong's own API, which ApiVersions does not list: `hutong cluster` and the console ask for it. The node passes the
command on to the controller and waits for its reply. A refusal has its code and its reason, too.
To look at the status the client needs DESCRIBE of the cluster, for all else ALTER.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.parts import TopicParts
from hutong.cluster.controller.commands import (
    CommandReply,
    ControllerCommand,
    ShowStatus,
    decode_command,
    encode_reply,
)
from hutong.foundation.errors import HutongError, ProtocolError
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandRequest, ClusterCommandResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 10_000


def handle(
    request: ClusterCommandRequest, context: RequestContext[TopicParts]
) -> ClusterCommandResponse | Pending[ClusterCommandResponse]:
    # Who may nothing does not learn either whether a command is well formed.
    if not may_in_cluster(context, Operation.DESCRIBE):  # which ALTER implies
        return _denied()
    try:
        command = decode_command(bytes(request.command))
    except ProtocolError as error:
        return ClusterCommandResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
    needed = Operation.DESCRIBE if isinstance(command, ShowStatus) else Operation.ALTER
    if not may_in_cluster(context, needed):
        return _denied()
    pending: Pending[ClusterCommandResponse] = Pending()

    def replied(outcome: CommandReply | HutongError) -> None:
        response = ClusterCommandResponse(error_message=None)
        if isinstance(outcome, HutongError):
            put_error(response, outcome)
        else:
            response.error_code, response.error_message = outcome.error, outcome.message or None
            response.reply = encode_reply(_with_partitions(outcome, command, context.broker))
        pending.complete(response)

    context.broker.cluster.command(command, replied)
    return pending


def _with_partitions(reply: CommandReply, command: ControllerCommand, broker: TopicParts) -> CommandReply:
    """The reply with the partitions of each group, which the controller does not know, where they are asked for."""
    if not isinstance(command, ShowStatus) or not command.with_partitions:
        return reply
    groups: dict[str, dict[str, list[int]]] = {}
    for topic in broker.topics.all():
        for partition in topic.partitions:
            groups.setdefault(partition.group, {}).setdefault(topic.name, []).append(partition.index)
    return CommandReply(reply.error, reply.message, reply.groups, reply.status, groups)


def _denied() -> ClusterCommandResponse:
    denied = refusal(ResourceType.CLUSTER)
    return ClusterCommandResponse(error_code=denied.code, error_message=denied.message)

"""The bounds on transactional ids and their memory, in all and of one client."""

from dataclasses import replace

from tests.unit.transactions.stage import SETTINGS, Stage

from hutong.foundation.waiting.table import Owner
from hutong.transactions.machine import ID_BYTES, PARTITION_BYTES
from hutong.transactions.messages import ProducerIdentity, TransactionReply
from hutong.transactions.settings import TransactionSettings
from hutong.wire.kafka.error_codes import ErrorCode


class Crowd:
    """Clients that bring up ids of their own."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.stage = Stage(settings)

    def init(self, name: str, holder: str) -> TransactionReply:
        replies: list[TransactionReply] = []
        self.stage.coordinator.init(name, 10_000, None, Owner(), replies.append, holder)
        return replies[0]

    def add(self, name: str, told: TransactionReply, count: int) -> ErrorCode:
        replies: list[TransactionReply] = []
        producer = ProducerIdentity(told.producer_id, told.producer_epoch)
        partitions = frozenset(("orders", index) for index in range(count))
        self.stage.coordinator.add(name, producer, partitions, Owner(), replies.append)
        return replies[0].error


def test_one_client_leaves_ids_to_others() -> None:
    crowd = Crowd(replace(SETTINGS, ids_max=20))
    codes = [crowd.init(f"flood-{number}", "flood").error for number in range(20)]
    assert codes == [ErrorCode.NONE] * 15 + [ErrorCode.POLICY_VIOLATION] * 5
    assert crowd.init("own", "other").error is ErrorCode.NONE
    assert crowd.init("flood-0", "flood").error is ErrorCode.NONE, "known ids go on at the bound"
    crowd.stage.pass_time(2 * SETTINGS.id_expiration_ms)
    assert len(crowd.stage.coordinator) == 0
    assert crowd.init("flood-new", "flood").error is ErrorCode.NONE, "what is forgotten is free"


def test_partitions_of_transactions_have_a_bound_in_bytes() -> None:
    crowd = Crowd(replace(SETTINGS, ids_bytes_max=8 * ID_BYTES + 100 * PARTITION_BYTES))
    flood, other = crowd.init("flood", "flood"), crowd.init("other", "other")
    assert crowd.add("flood", flood, 80) is ErrorCode.NONE
    assert crowd.add("flood", flood, 200) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert crowd.add("flood", flood, 80) is ErrorCode.NONE, "what adds nothing passes"
    assert crowd.add("other", other, 20) is ErrorCode.NONE
    replies: list[TransactionReply] = []
    producer = ProducerIdentity(flood.producer_id, flood.producer_epoch)
    crowd.stage.coordinator.end("flood", producer, Owner(), replies.append, is_commit=True, client_version=0)
    assert replies[0].error is ErrorCode.NONE
    assert crowd.add("flood", flood, 80) is ErrorCode.NONE, "a transaction that ended has no partitions"
    crowd.stage.restart()
    assert crowd.stage.coordinator._memory.taken > 100 * PARTITION_BYTES, "taken up again"

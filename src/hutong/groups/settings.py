"""The bounds and times of consumer groups. Kafka's names and defaults, except where a comment says why not."""

from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Every wait and every growth of a group is limited by one of these."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * MINUTE_MS
    # Kafka waits 3,000 ms so that a fleet starting together costs one rebalance. Here a rebalance is cheap and people
    # run test suites against us: long enough for processes started by one command, too short to be noticed.
    initial_rebalance_delay_ms: int = 200
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
    # Kafka has no bounds on groups, members and offsets; memory does.
    groups_max: int = 10_000
    members_max: int = 5_000
    name_bytes_max: int = 4_096  # group, instance and protocol names; stored with a 16-bit length
    member_metadata_bytes_max: int = 1024 * 1024
    # A group is stored as one record: these two together must fit into a batch of the state topic.
    group_metadata_bytes_max: int = 4 * 1024 * 1024
    assignment_bytes_max: int = 2 * 1024 * 1024
    groups_bytes_max: int = 256 * 1024 * 1024  # of all members' metadata and assignments
    offsets_max: int = 1_000_000
    offset_notes_bytes_max: int = 64 * 1024 * 1024  # of the metadata that clients add to offsets
    waits_max: int = 50_000
    # A member id that is handed out and not used (KIP-394) lapses by the session timeout in Kafka, which the client
    # chooses. Here no later than this: a client uses its id at once.
    pending_member_timeout_ms: int = 10_000
    pending_members_max: int = 20_000
    pending_members_per_client_max: int = 1_000
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS

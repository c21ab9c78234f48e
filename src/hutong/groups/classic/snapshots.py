"""A classic group as it is stored, and as clients see it: pure functions of its member table and its generation."""

from hutong.groups.classic.membership.member_table import ClassicMember, MemberTable
from hutong.groups.classic.messages import ClassicMemberDescription
from hutong.groups.classic.records import GroupRecord, MemberRecord


def record_of(
    table: MemberTable,
    protocol_type: str,
    generation_id: int,
    protocol_name: str | None,
    proposed: dict[str, bytes] | None = None,
) -> GroupRecord:
    """The group's record: members as they are, with the proposed assignments (one for each) if there are any."""
    return GroupRecord(
        protocol_type=protocol_type,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader_id=table.leader_id,
        members=[
            MemberRecord(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata_for(protocol_name),
                assignment=member.assignment if proposed is None else proposed[member.member_id],
            )
            for member in table.members.values()
        ],
    )


def member_from(stored: MemberRecord, protocol_name: str) -> ClassicMember:
    """A stored member supports at least the protocol of its generation."""
    return ClassicMember(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        protocols=((protocol_name, stored.subscription),),
        assignment=stored.assignment,
    )


def describe_members(table: MemberTable, agreed_protocol: str | None) -> tuple[ClassicMemberDescription, ...]:
    """Metadata and assignments are shown only where a protocol is agreed on: they mean nothing during a rebalance."""
    return tuple(
        ClassicMemberDescription(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=b"" if agreed_protocol is None else member.metadata_for(agreed_protocol),
            assignment=b"" if agreed_protocol is None else member.assignment,
        )
        for member in table.members.values()
    )


def metadata_for_leader(table: MemberTable, protocol_name: str | None) -> tuple[tuple[str, str | None, bytes], ...]:
    """(member id, instance id, metadata) of everyone, for the member that assigns."""
    return tuple(
        (member.member_id, member.group_instance_id, member.metadata_for(protocol_name))
        for member in table.members.values()
    )

"""Moves under way, for people: from where to where, and how much is copied.

Knows no client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hutong.cluster.controller.commands import ControllerStatus
    from hutong.console.nodes.cluster import SeenCluster
    from hutong.console.nodes.moving.asking import HeldBytes
    from hutong.console.nodes.moving.units import MoveUnit, Place, Replicas

MOVES_SHOWN_MAX: Final = 500


def hutong_moves(status: ControllerStatus, units: Iterable[MoveUnit]) -> list[dict[str, Any]]:
    """Groups on their way, and partitions that are about to get a group of their own."""
    by_name = {unit.name: unit for unit in units}
    moves = [
        {
            **by_name[group.name].told(),
            "before": group.before,
            "target": group.target,
            "copied_bytes": group.copied_bytes,
            "whole_bytes": group.stream_bytes,
            "bytes_per_second": group.copied_bytes_per_second_max or None,
        }
        for group in status.groups
        if group.target is not None and group.name in by_name
    ]
    leaving: list[dict[str, Any]] = [
        {
            "name": name,
            "group": name,
            "partitions": len(split.log_ids),
            "topics": [],
            "more_topics": 0,
            "before": None,
            "target": split.target,
            "copied_bytes": None,
            "whole_bytes": None,
            "bytes_per_second": None,
        }
        for name, split in status.splits.items()
        if name not in by_name or by_name[name].target is None
    ]
    return moves + leaving


def kafka_moves(
    moving: Iterable[tuple[Place, Replicas, Replicas]], cluster: SeenCluster, held: HeldBytes
) -> list[dict[str, Any]]:
    """Partitions on their way. The slowest new replica counts; the leader's size is the whole."""
    leaders = {(one.topic, one.number): one.leader for one in cluster.partitions}
    return [_kafka_move(place, before, target, leaders, held) for place, before, target in moving]


def _kafka_move(
    place: Place, before: Replicas, target: Replicas, leaders: Mapping[Place, int], held: HeldBytes
) -> dict[str, Any]:
    topic, number = place
    added = [node for node in target if node not in before]
    whole = held.get((leaders.get(place, -1), place))
    return {
        "name": f"{topic}/{number}",
        "group": None,
        "topic": topic,
        "partition": number,
        "partitions": 1,
        "topics": [topic],
        "more_topics": 0,
        "before": before,
        "target": target,
        "copied_bytes": None if whole is None or not added else min(held.get((node, place), 0) for node in added),
        "whole_bytes": whole,
        "bytes_per_second": None,
    }

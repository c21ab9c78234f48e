"""The live table of `hutong cluster dev`: its rows, and that it is for terminals alone."""

import io
import sys
import threading

import pytest
from rich.console import Console

from hutong.cli.cluster.dev_table import StatusLooks, shown, table_of
from hutong.cluster.controller.commands import ControllerStatus, GroupProgress
from hutong.foundation.errors import UsageError


def group(name: str, leader: int, in_sync: tuple[int, ...]) -> GroupProgress:
    return GroupProgress(name, 1, 1, leader, (1, 2, 3), in_sync, (), 2)


def drawn(states: dict[int, str], status: ControllerStatus | None) -> list[list[str]]:
    """The words of each line."""
    output = io.StringIO()
    Console(file=output, width=120).print(table_of(states, status))
    return [line.split() for line in output.getvalue().splitlines()]


def test_each_node_has_a_row_with_what_it_leads_and_lacks() -> None:
    groups = (group("days", 1, (1, 3)), group("hours", 3, (1, 2, 3)), group("offsets", 1, (1, 2, 3)))
    lines = drawn({1: "up", 2: "cut off", 3: "up"}, ControllerStatus((), groups))
    assert lines == [
        ["node", "state", "leads", "behind", "with"],
        ["1", "up", "days,", "offsets", "-"],
        ["2", "cut", "off", "-", "days"],
        ["3", "up", "hours", "-"],
        ["3", "groups,", "1", "lack", "replicas", "in", "sync"],
    ]


def test_a_group_without_a_leader_is_named() -> None:
    assert drawn({1: "down"}, ControllerStatus((), (group("days", -1, (1,)),)))[-1] == [
        "without",
        "a",
        "leader:",
        "days",
    ]


def test_before_the_first_answer_the_processes_are_shown() -> None:
    assert drawn({1: "up"}, None)[1:] == [["1", "up", "-", "-"], ["no", "controller", "has", "answered", "yet"]]


def test_an_answer_that_does_not_come_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hutong.cli.cluster.dev_table.ASK_SECONDS", 0)
    answers: list[ControllerStatus | UsageError] = [
        ControllerStatus((), (group("days", 1, (1,)),)),
        UsageError("no controller"),
    ]
    both_came = threading.Event()

    def ask() -> ControllerStatus:
        answer = answers.pop(0)
        if isinstance(answer, UsageError):
            looks.end()
            both_came.set()
            raise answer
        return answer

    looks = StatusLooks(ask)
    looks.start()
    assert both_came.wait(10)
    assert looks.newest is not None
    assert looks.newest.groups[0].name == "days"


def test_nothing_is_shown_where_the_output_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    before = threading.active_count()
    with shown({}):
        assert threading.active_count() == before
    assert output.getvalue() == ""

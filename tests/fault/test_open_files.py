"""A node that may have few open files: clients never take those that its journals need, and a shortage passes."""

import os
import pathlib
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from bench.kafka_bytes import ProduceReplyLayout, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic, host_and_port
from tests.support.confluent import read_partition
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(not IS_HUTONG, reason="knows how Hutong uses files"),
    pytest.mark.timeout(300),
]
FILES_MAX = 256
VALUE = bytes(800_000)
SEGMENT_BYTES = 2 << 20
TOPIC = "files"


class FewFiles(Node):
    """A node whose process is started with these limits of open files."""

    soft, hard = FILES_MAX, FILES_MAX

    def _command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -Sn {self.soft} && ulimit -Hn {self.hard} && exec "$@"', "sh", *super()._command()]


class LowSoftLimit(FewFiles):
    soft, hard = 128, 2048


@contextmanager
def running(kind: type[Node], folder: pathlib.Path) -> Iterator[Node]:
    with kind(folder, f"log.segment_bytes={SEGMENT_BYTES}", "network.max_connections=1500") as node:
        create_topic(node.address, TOPIC, records=0)
        yield node


def produce(connection: RawConnection, count: int) -> list[int]:
    """The error code of each."""
    layout = ProduceReplyLayout.of(TOPIC)
    request = produce_request(TOPIC, record_batch([VALUE]))
    return [layout.error_code(connection.call(request)) for _ in range(count)]


def test_idle_clients_do_not_take_the_files_of_the_journals(tmp_path: pathlib.Path) -> None:
    with running(FewFiles, tmp_path) as node, ExitStack() as idle, RawConnection(node.address) as connection:
        assert produce(connection, 1) == [0]
        for _ in range(FILES_MAX + 100):
            idle.enter_context(socket.create_connection(host_and_port(node.address), 30.0))
        until(lambda: b"further ones wait" in node.log_path.read_bytes(), what="a word on the bound")
        assert produce(connection, 12) == [0] * 12
        assert len(list((node.folder / "data").rglob("0*.journal"))) > 4, "segments were closed and begun"
        assert len(os.listdir(f"/proc/{node.pid}/fd")) < FILES_MAX - FILES_MAX // 4
        idle.close()
        with RawConnection(node.address) as later:
            assert produce(later, 1) == [0]


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: pathlib.Path) -> None:
    with running(LowSoftLimit, tmp_path) as node:
        assert resource.prlimit(node.pid, resource.RLIMIT_NOFILE) == (LowSoftLimit.hard, LowSoftLimit.hard)


def test_a_group_that_ran_out_of_files_goes_on_when_there_are_some(tmp_path: pathlib.Path) -> None:
    """Whoever took them: here the limit itself is lowered under the running node."""
    with running(FewFiles, tmp_path) as node, RawConnection(node.address) as connection:
        assert produce(connection, 1) == [0]
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (8, FILES_MAX))
        codes = produce(connection, 12)
        assert 56 in codes, "KAFKA_STORAGE_ERROR: a reason to try again"
        assert set(codes[codes.index(56) :]) == {56}
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
        until(lambda: b"has open files and memory again" in node.log_path.read_bytes(), what="a file for the segment")
        assert produce(connection, 3) == [0] * 3
        assert len(read_partition(node.address, TOPIC)) >= codes.count(0) + 4

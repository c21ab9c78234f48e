"""A running node whose disk fails: what its clients see, what its log says, and what is there after a restart.

The partition group of a topic follows from its retention: `hours` and `days` are two groups, so two journals.
"""

import errno
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest
from bench.kafka_bytes import api_versions_request
from bench.raw_client import RawConnection, create_topic
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.confluent import offset_of, producer, read_partition, send, values
from tests.support.faulty_node import Control, faulty_node
from tests.support.load import RecordedLoad
from tests.support.log_checker import check
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_HUTONG, reason="the faults are put into Hutong's own disk port"),
]

DAYS, HOURS = "in-days", "in-hours"
DEADLINE_S = 30.0
STALL_MS = 600_000  # longer than any test: it ends when the disk is healed
SERVED_DURING_A_STALL = 100
MEBIBYTE = 1024 * 1024
NOBODY = 65534


class Scene:
    """A node with a topic in each of two groups."""

    def __init__(self, node: Node, control: Control) -> None:
        self.node = node
        self.control = control
        self.acknowledged: dict[str, list[bytes]] = {DAYS: [], HOURS: []}
        self._counter = itertools.count()

    def start(self) -> None:
        self.node.start()

    def topics(self) -> None:
        create_topic(self.node.address, DAYS, records=0)
        create_topic(self.node.address, HOURS, configs={"retention.ms": "3600000"}, records=0)

    def produce(self, topic: str, count: int = 5) -> list[int | None]:
        """One record after the other, each tried once; the error code of each, None for an acknowledgement."""
        once = producer(self.node.address, retries=0, acks="all", message_timeout_ms=20_000)
        return [self._produce_one(once, topic) for _ in range(count)]

    def _produce_one(self, once: Producer, topic: str) -> int | None:
        value = b"%d" % next(self._counter)
        codes: list[int | None] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            codes.append(error.code() if error else None)

        once.produce(topic, value, on_delivery=delivered)
        once.flush(DEADLINE_S)
        (code,) = codes
        if code is None:
            self.acknowledged[topic].append(value)
        return code

    def check_everything_acknowledged_is_there(self) -> None:
        for topic, acknowledged in self.acknowledged.items():
            found = values(read_partition(self.node.address, topic))
            assert [value for value in found if value in set(acknowledged)] == acknowledged

    def log_lines(self, *words: str) -> list[str]:
        lines = self.node.log_path.read_text().splitlines()
        return [line for line in lines if all(word in line for word in words)]


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Iterator[Scene]:
    node, control = faulty_node(tmp_path)
    with node:
        scene = Scene(node, control)
        scene.topics()
        yield scene


OK = [None] * 5
STORAGE_ERROR = [KafkaError.KAFKA_STORAGE_ERROR] * 5


@pytest.mark.parametrize("operation", ["flush", "write"])
def test_a_failing_disk_fails_its_group_and_no_other(scene: Scene, operation: str) -> None:
    assert scene.produce(DAYS) == scene.produce(HOURS) == OK
    scene.control.plan({"operation": operation, "pattern": "*/days/*.journal", "error": errno.EIO, "times": 1})
    assert scene.produce(DAYS) == STORAGE_ERROR, "the disk works again after one failure, but nobody may believe it"
    assert scene.produce(HOURS) == OK
    scene.check_everything_acknowledged_is_there()
    (line,) = scene.log_lines("CRITICAL")
    assert "partition group days has failed for good" in line
    assert str(scene.node.folder / "data" / "groups" / "days") in line
    assert "Input/output error" in line
    assert "takes no more records" in line
    scene.control.heal()
    scene.node.restart()
    scene.check_everything_acknowledged_is_there()
    assert scene.produce(DAYS) == scene.produce(HOURS) == OK
    scene.check_everything_acknowledged_is_there()


def test_a_group_whose_folder_vanished_acknowledges_nothing_more(scene: Scene) -> None:
    assert scene.produce(DAYS) == scene.produce(HOURS) == OK
    shutil.rmtree(scene.node.folder / "data" / "groups" / "days")
    assert scene.produce(DAYS) == STORAGE_ERROR
    assert scene.produce(HOURS) == OK
    scene.check_everything_acknowledged_is_there()
    (line,) = scene.log_lines("CRITICAL")
    assert "days" in line
    assert "removed while it was in use" in line


def test_a_disk_that_turns_read_only_takes_nothing_more(scene: Scene) -> None:
    assert scene.produce(DAYS) == OK
    operations = ("write", "preallocate", "create", "truncate", "rename", "unlink", "flush")
    scene.control.plan(*({"operation": operation, "error": errno.EROFS} for operation in operations))
    assert scene.produce(DAYS) == scene.produce(HOURS) == STORAGE_ERROR
    scene.check_everything_acknowledged_is_there()
    assert {line.split("partition group ")[1].split()[0] for line in scene.log_lines("CRITICAL")} == {"days", "hours"}
    scene.control.heal()
    scene.node.restart()
    scene.check_everything_acknowledged_is_there()


def test_a_topic_cannot_be_made_on_a_full_disk_and_is_told_why(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.node.address})
    scene.control.plan({"operation": "write", "pattern": "*/metadata/*", "error": errno.ENOSPC})
    for name in ("first", "second"):
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([NewTopic(name, 1)], request_timeout=20)[name].result(DEADLINE_S)
        error = refused.value.args[0]
        assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        assert "No space is left" in error.str()
    assert scene.produce(DAYS) == OK
    scene.control.heal()
    until(lambda: made(admin, "second"), what="the topic")
    (full,), (space,) = scene.log_lines("group metadata: cannot write"), scene.log_lines("metadata has space again")
    assert "ERROR" in full
    assert "No space left on device" in full
    assert "WARNING" in space
    topics = set(admin.list_topics(timeout=DEADLINE_S).topics)
    scene.node.restart()
    assert set(admin.list_topics(timeout=DEADLINE_S).topics) == topics, "a restart changes nothing"


def made(admin: AdminClient, name: str) -> bool:
    try:
        admin.create_topics([NewTopic(name, 1)], request_timeout=20)[name].result(DEADLINE_S)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


def test_checkpoints_that_cannot_be_written_cost_only_a_longer_start(scene: Scene) -> None:
    scene.control.plan({"operation": "create", "pattern": "*.tmp", "error": errno.ENOSPC})
    assert scene.produce(DAYS) == OK
    assert scene.node.stop() == 0
    assert not (scene.node.folder / "data" / "groups" / "days" / "checkpoint").exists()
    scene.start()
    scene.check_everything_acknowledged_is_there()
    assert scene.log_lines("groups/days/checkpoint is missing; everything was read")
    assert scene.produce(DAYS) == OK


# -- a slow disk


class Pinger(threading.Thread):
    """Asks again and again on a connection of its own, and counts the answers."""

    def __init__(self, address: str) -> None:
        super().__init__(name="pinger")
        self.answers = 0
        self._address = address
        self._stopping = threading.Event()

    def run(self) -> None:
        with RawConnection(self._address) as connection:
            while not self._stopping.is_set():
                connection.call(api_versions_request())
                self.answers += 1

    def __enter__(self) -> "Pinger":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()


def test_a_stalling_disk_under_one_group_is_not_felt_by_pings_or_other_groups(tmp_path: pathlib.Path) -> None:
    """One worker thread, so that whatever of the stalled group lay on the shared workers would stop all others."""
    node, control = faulty_node(tmp_path, "node.worker_threads=1")
    with node:
        scene = Scene(node, control)
        scene.topics()
        slow = producer(node.address, linger_ms=0, acks="all", message_timeout_ms=120_000)
        other = producer(node.address, linger_ms=0, acks="all", message_timeout_ms=60_000)
        acknowledged: list[object] = []
        control.plan({"operation": "flush", "pattern": "*/days/*", "latency_ms": STALL_MS})
        slow.produce(DAYS, b"slow", on_delivery=lambda error, _: acknowledged.append(error))
        with Pinger(node.address) as pinger:
            for _ in range(SERVED_DURING_A_STALL):
                slow.poll(0)
                send(other, HOURS, [b"quick"])
            until(lambda: pinger.answers >= SERVED_DURING_A_STALL, what="answers to pings", between_s=0.01)
            slow.poll(0)
            assert acknowledged == [], "the disk stalled all the time"
        control.heal()
        assert slow.flush(DEADLINE_S) == 0
        assert acknowledged == [None]


# -- a disk that is really full


@pytest.fixture
def small_disk() -> Iterator[pathlib.Path]:
    """Not in pytest's folder: each further run of pytest closes that to other users."""
    with tempfile.TemporaryDirectory(prefix="hutong-small-") as made:
        place = pathlib.Path(made)
        place.chmod(0o755)
        yield from mounted(place / "small")


def mounted(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounting.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounting.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: pathlib.Path) -> pathlib.Path:
    """Leave no byte."""
    filler = disk / "filler"
    with filler.open("ab") as file:
        for size in (MEBIBYTE, 4096, 1):
            while writes(file.fileno(), bytes(size)):
                pass
    return filler


def writes(descriptor: int, data: bytes) -> bool:
    try:
        return os.write(descriptor, data) > 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself(small_disk: pathlib.Path) -> None:
    node = Node(small_disk.parent, "log.segment_bytes=4194304")
    node.folder = small_disk
    with node:
        scene = Scene(node, Control(small_disk.parent / "unused"))
        scene.topics()
        create_topic(node.address, "load", partitions=2, records=0)
        create_topic(node.address, "ballast", records=0)
        assert scene.produce(DAYS) == OK
        with RecordedLoad(node.address, "load", 2) as load:
            load.wait_for_acknowledged(2000)
            filler = fill(small_disk)
            until(lambda: 56 in refusals(scene), deadline_s=120, what="a refusal")
            assert len(scene.log_lines("partition group days", "No space left on device")) == 1
            scene.check_everything_acknowledged_is_there()
            assert load.errors == [], "an idempotent producer tries again"
            filler.unlink()
            load.wait_for_acknowledged(2000)
        assert scene.log_lines("partition group days has space again")
        assert scene.produce(DAYS) == OK
        final = {
            ("load", partition): [
                (offset_of(message), message.value() or b"")
                for message in read_partition(node.address, "load", partition)
            ]
            for partition in range(2)
        }
        assert check(load.history, final_reads=final) == []
        scene.check_everything_acknowledged_is_there()

        filler = fill(small_disk)
        until(lambda: 56 in refusals(scene), deadline_s=120, what="a refusal")
        fill(small_disk)
        assert node.stop() == 0
        node.start()  # on a disk without a free byte
        scene.check_everything_acknowledged_is_there()
        filler.unlink()
        until(lambda: scene.produce(DAYS, 1) == [None], what="an acknowledgement")
        scene.check_everything_acknowledged_is_there()
        assert node.stop() == 0
    doctor = subprocess.run(
        [sys.executable, "-m", "hutong", "doctor", str(small_disk / "data")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (doctor.returncode, doctor.stderr) == (0, "Nothing is wrong.\n")


def refusals(scene: Scene) -> list[int | None]:
    """A hundred kibibytes into the group, so that what is reserved is used up some time."""
    once = producer(scene.node.address, retries=0, acks="all", message_timeout_ms=20_000)
    codes: list[int | None] = []
    for _ in range(20):
        once.produce(
            "ballast", bytes(100_000), on_delivery=lambda error, _: codes.append(error.code() if error else None)
        )
    once.flush(DEADLINE_S)
    return codes


def test_a_folder_on_a_full_disk_is_refused_in_one_sentence(small_disk: pathlib.Path) -> None:
    fill(small_disk)
    status, sentences = refused_start(small_disk / "data")
    assert status == 73
    assert len(sentences) == 1
    assert "No space left on device" in sentences[0]


# -- folders that cannot be used


BECOME_AND_SERVE = """
import os, sys
import uvloop
import hutong.cli.main, hutong.cli.node.serve, hutong.server.serving  # while this user may still read them
os.setuid(int(sys.argv[1]))
sys.exit(hutong.cli.main.run(["serve", *sys.argv[2:]]))
"""


def refused_start(data: pathlib.Path, user: int = os.getuid()) -> tuple[int, list[str]]:
    """Exit status and standard error of a node that does not start."""
    # On a busy machine its loop is blocked for seconds while it loads modules, and another line would say so.
    options = ["--data-dir", str(data), "--kafka", "127.0.0.1:0", "--set", "runtime.blocked_loop_ms=60000"]
    command = [sys.executable, "-c", BECOME_AND_SERVE, str(user), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr.splitlines()


def test_a_read_only_folder_is_refused_in_one_sentence(small_disk: pathlib.Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    status, sentences = refused_start(small_disk / "data")
    assert (status, len(sentences)) == (73, 1)
    assert "Read-only file system" in sentences[0]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a node as somebody else")
@pytest.mark.parametrize("place", ["the folder", "a group"])
def test_a_folder_of_somebody_else_is_refused_in_one_sentence(small_disk: pathlib.Path, place: str) -> None:
    data = small_disk / "data"
    small_disk.chmod(0o755)
    with Node(small_disk) as node:
        create_topic(node.address, DAYS, records=1)
        node.stop()
    for path in (data, *data.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    refused = data if place == "the folder" else data / "groups" / "days"
    for path in (refused, *refused.rglob("*")):
        os.chown(path, 0, 0)
        path.chmod(0o700 if path.is_dir() else 0o600)
    status, sentences = refused_start(data, user=NOBODY)
    assert status in (73, 74)
    assert len(sentences) == 1
    assert str(refused) in sentences[0]
    assert "Permission denied" in sentences[0]


# -- damage that a start finds


@pytest.fixture
def killed(scene: Scene) -> tuple[Scene, pathlib.Path]:
    """Killed before any checkpoint, and the journal of the group `days`."""
    assert scene.produce(DAYS, 5) == scene.produce(HOURS, 5) == OK
    scene.node.kill()
    (journal,) = (scene.node.folder / "data" / "groups" / "days").glob("*.journal")
    return scene, journal


def test_a_torn_tail_is_cut_in_one_sentence(killed: tuple[Scene, pathlib.Path]) -> None:
    scene, journal = killed
    content = journal.read_bytes()
    end = len(content.rstrip(b"\0"))
    with journal.open("r+b") as file:
        file.seek(end + 1)  # a record may end with a zero
        file.write(content[: end // 2])  # half of what was in flight, at a place where it does not belong
    scene.start()
    scene.check_everything_acknowledged_is_there()
    (sentence,) = scene.log_lines("the journal was cut at position")
    assert f"{journal}: the chunk at position" in sentence
    assert scene.produce(DAYS) == OK


def test_rot_is_not_cut_away_with_what_follows_but_given_up_when_told(killed: tuple[Scene, pathlib.Path]) -> None:
    scene, journal = killed
    content = bytearray(journal.read_bytes())
    content[130] ^= 1
    journal.write_bytes(content)
    scene.start()  # with all other groups: see test_offline_group.py
    (sentence,) = scene.log_lines("partition group days is offline")
    assert f"{journal}: " in sentence
    assert "position 0" in sentence
    assert f"nothing was changed; `hutong doctor {scene.node.folder / 'data'}` says what can be done" in sentence
    assert scene.produce(HOURS) == OK
    scene.node.stop()
    assert journal.read_bytes() == content
    doctor = [sys.executable, "-m", "hutong", "doctor", str(scene.node.folder / "data")]
    dry = subprocess.run(doctor, capture_output=True, text=True, check=False)
    assert dry.returncode == 65
    assert f"Lost at most: {DAYS}/0 offsets 0 to 0." in dry.stderr
    assert journal.read_bytes() == content
    assert subprocess.run([*doctor, "--repair", "--yes"], capture_output=True, check=False).returncode == 0
    scene.start()
    scene.acknowledged[DAYS].pop(0)
    scene.check_everything_acknowledged_is_there()
    assert scene.produce(DAYS) == OK


def test_a_journal_of_a_later_version_is_refused_and_kept(killed: tuple[Scene, pathlib.Path]) -> None:
    scene, journal = killed
    content = bytearray(journal.read_bytes())
    content[4:10] = b"\0\0\0\0\0\x63"
    journal.write_bytes(content)
    status, sentences = refused_start(scene.node.folder / "data")
    assert status == 65
    assert "has format 99, this version reads" in sentences[-1]
    assert journal.read_bytes() == content


def test_doctor_keeps_off_a_folder_that_is_in_use(scene: Scene) -> None:
    for words in (["doctor"], ["doctor", "--repair", "--yes"], ["dump"]):
        command = [sys.executable, "-m", "hutong", *words, str(scene.node.folder / "data")]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 75
    os.kill(scene.node.pid, signal.SIGCONT)  # it is still there
    assert scene.produce(DAYS) == OK

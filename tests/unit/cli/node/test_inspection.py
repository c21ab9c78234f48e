"""Looking into the folder of a node: while it runs, after it stopped, and after someone damaged it."""

import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c
from tests.support.confluent import read_partition
from tests.support.lying_batches import batch
from tests.support.node import IS_HUTONG, Node

from hutong.cli import main
from hutong.cli.node import inspection
from hutong.journal.format import chunk
from hutong.server.broker.data.data_dir import DataDir
from hutong.wire.kafka.batch.records import CRC_AT, CRC_START, HEADER_BYTES, Record, build_batch

pytestmark = pytest.mark.skipif(not IS_HUTONG, reason="the folder of another broker has another form")

LINES = 50


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a node that took in LINES records on each of two topics and was stopped."""
    folder = tmp_path_factory.mktemp("node")
    lines = folder / "lines"
    lines.write_text("".join(f"k{number}:v{number}\n" for number in range(LINES)))
    with Node(folder) as node:
        for topic, codec in (("plain", "none"), ("packed", "gzip")):
            words = ["produce", topic, str(lines), "-k", ":", "--compression", codec, "--bootstrap", node.address]
            assert main.run(words) == 0
        assert node.stop() == 0
    return folder / "data"


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "data"))


@pytest.fixture
def hutong(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main.run([str(word) for word in words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


Hutong = Callable[..., tuple[int, str, str]]


def journal_of(folder: Path) -> Path:
    return next(path for path in sorted((folder / "groups" / "days").glob("*.journal")) if path.stat().st_size)


def damage(folder: Path) -> Path:
    """Flip one bit in the middle of the data groups' journal; returns the file."""
    journal = journal_of(folder)
    content = bytearray(journal.read_bytes())
    content[len(content) // 4] ^= 1
    journal.write_bytes(content)
    return journal


def test_records_come_back_out_of_the_journal(folder: Path, hutong: Hutong) -> None:
    for topic in ("plain", "packed"):
        code, out, _ = hutong("dump", folder, "--topic", topic, "--records")
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
            (number, f"k{number}", f"v{number}") for number in range(LINES)
        ]
        assert {row["log"] for row in rows} == {f"{topic}/0"}


def test_logs_of_a_node_itself_have_names_also_where_there_are_several_of_a_kind() -> None:
    groups: dict[str, Any] = dict.fromkeys(("offsets", "transactions-2", "share-11", "days-1"))
    assert inspection._names(groups) == {
        ("offsets", 0): "__consumer_offsets/0",
        ("transactions-2", 0): "__transaction_state/2",
        ("share-11", 0): "__share_group_state/11",
    }


def test_runs_are_listed_with_the_names_of_their_logs(folder: Path, hutong: Hutong) -> None:
    _, out, _ = hutong("dump", folder, "--json", "--runs", "--group", "days")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["log"] for row in rows} == {"plain/0", "packed/0"}
    assert sum(row["offsets"] for row in rows) == 2 * LINES
    _, table, _ = hutong("dump", folder, "--runs")
    assert "__hutong_metadata/0" in table


def test_files_are_listed_with_what_is_in_them(folder: Path, hutong: Hutong) -> None:
    code, out, _ = hutong("dump", folder, "--json", "--group", "days")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert code == 0
    journal = journal_of(folder)
    assert rows[journal.name]["content"] == f"positions 0 to {journal.stat().st_size}"
    assert rows["checkpoint"]["content"] == f"2 logs at {journal.stat().st_size}, clean"
    assert {row["kind"] for row in rows.values()} == {"segment", "index", "checkpoint"}


@pytest.mark.parametrize("how", ["--runs", "--records"])
def test_a_listing_is_bounded_and_says_so(how: str, folder: Path, hutong: Hutong) -> None:
    _, whole, err = hutong("dump", folder, "--json", how, "--group", "metadata", "--limit", 0)
    rows = whole.splitlines()
    assert err == ""
    code, out, err = hutong("dump", folder, "--json", how, "--group", "metadata", "--limit", len(rows) - 1)
    assert (code, out.splitlines()) == (0, rows[:-1])
    assert err == f"There is more; --limit {len(rows) - 1} ended it (0 prints everything).\n"


def test_a_sound_folder(folder: Path, hutong: Hutong) -> None:
    code, out, err = hutong("doctor", folder, "--json")
    assert (code, err) == (0, "Nothing is wrong.\n")
    assert {json.loads(line)["problems"] for line in out.splitlines()} == {0}


def test_damage_is_found_and_mended_only_when_told(folder: Path, hutong: Hutong) -> None:
    journal = damage(folder)
    before = {path.name: path.read_bytes() for path in journal.parent.iterdir()}
    code, _, dry = hutong("doctor", folder)
    assert code == 65
    assert f"{journal} at position " in dry
    assert "Lost at most: plain/0 offsets" in dry
    assert f"Nothing was changed; `hutong doctor {folder} --repair` applies the remedies.\n" in dry
    assert hutong("doctor", folder, "--repair")[0] == 64  # nobody is there to be asked
    assert {path.name: path.read_bytes() for path in journal.parent.iterdir()} == before
    code, _, err = hutong("doctor", folder, "--repair", "--yes")
    assert code == 0
    assert "damaged batches at position" in err
    assert err.endswith("Nothing is wrong any more.\n")
    (aside,) = journal.parent.glob("*.set-aside")
    assert aside.read_bytes() in before[journal.name]
    assert hutong("doctor", folder)[0] == 0

    code, out, _ = hutong("dump", folder, "--records", "--topic", "plain")
    kept = [json.loads(line)["offset"] for line in out.splitlines()]
    first, last = re.findall(r"plain/0 offsets (\d+) to (\d+)", dry)[0]
    assert (code, kept) == (0, [offset for offset in range(LINES) if not int(first) <= offset <= int(last)])
    with Node(folder.parent) as node:  # and the node starts on it again
        assert len(read_partition(node.address, "packed")) == LINES


def test_a_batch_that_does_not_hold_what_its_header_says_is_reported(folder: Path, hutong: Hutong) -> None:
    journal = journal_of(folder)
    content = bytearray(journal.read_bytes())
    at = next(at for at in range(len(content)) if content[at : at + 4] == b"k0\x04v") - HEADER_BYTES
    while content[at + 16] != 2 or crc32c(content[at + CRC_START :][: _length(content, at)]) != _crc(content, at):
        at -= 1  # the header ends somewhere before its first record's key
    struct.pack_into(">i", content, at + 57, LINES + 1)
    struct.pack_into(">I", content, at + CRC_AT, crc32c(content[at + CRC_START :][: _length(content, at)]))
    _seal_chunk(content, at)
    journal.write_bytes(content)
    code, out, err = hutong("doctor", folder, "--json")
    assert code == 65
    assert {row["group"]: row["problems"] for row in map(json.loads, out.splitlines()) if row["problems"]} == {
        "days": 1
    }
    assert "the records of the batch are not those that its header says: " in err
    assert f" The batch has plain/0 offsets 0 to {LINES - 1}.\n" in err
    assert hutong("doctor", folder, "--repair", "--yes")[0] == 65
    assert journal.read_bytes() == content


def _seal_chunk(content: bytearray, at: int) -> None:
    """Digest and CRC of the header in front of the one batch at `at`, as if it had been written so."""
    header = at - chunk.header_bytes_for(1)
    assert content[header:].startswith(chunk.MAGIC)
    struct.pack_into(">I", content, at - 4, chunk.digest_of([content[at + CRC_AT : at + CRC_START]]))
    struct.pack_into(">I", content, header + 4, crc32c(content[header + 8 : at]))


def _length(content: bytearray, at: int) -> int:
    return int(struct.unpack_from(">i", content, at + 8)[0]) - (CRC_START - 12)


def _crc(content: bytearray, at: int) -> int:
    return int(struct.unpack_from(">I", content, at + CRC_AT)[0])


def test_what_cannot_be_repaired_stays_wrong(folder: Path, hutong: Hutong) -> None:
    journal_of(folder).unlink()
    code, _, err = hutong("doctor", folder, "--repair", "--yes")
    assert code == 65
    assert "Still wrong: " in err
    assert "restore the file from a copy" in err


def test_dumping_goes_on_behind_the_damage(folder: Path, hutong: Hutong) -> None:
    journal = damage(folder)
    code, out, err = hutong("dump", folder, "--group", "days", "--records")
    assert code == 65
    assert err.startswith(f"{journal} at position ")
    assert err.count("\n") == 1
    logs = [json.loads(line)["log"] for line in out.splitlines()]
    assert logs.count("packed/0") == LINES


@pytest.mark.parametrize("command", ["dump", "doctor"])
def test_what_cannot_be_looked_at(command: str, folder: Path, tmp_path: Path, hutong: Hutong) -> None:
    code, _, err = hutong(command, tmp_path)
    assert (code, err) == (66, f"hutong: {tmp_path} is no data folder of a node.\n")
    lock = DataDir(folder, os.urandom)
    code, _, err = hutong(command, folder)
    lock.close()
    assert (code, err) == (75, f"hutong: A node is running on {folder}; stop it first.\n")


def test_a_misspelt_topic_is_no_empty_one(folder: Path, hutong: Hutong) -> None:
    code, _, err = hutong("dump", "--data-dir", folder, "--topic", "pakced")
    assert code == 66
    assert "There is no topic pakced in this folder; did you mean packed?" in err


def test_an_unknown_group(folder: Path, hutong: Hutong) -> None:
    code, _, err = hutong("dump", folder, "--group", "weeks")
    assert code == 66
    assert "There is no group weeks; there are compacted, days, " in err


def test_a_batch_whose_records_cannot_be_read_is_told_and_the_next_follows(capsys: pytest.CaptureFixture[str]) -> None:
    good = build_batch([Record(timestamp_ms=1, value=b"good")], base_offset=3)
    lying = batch(b"\xff" * 50, 1, now_ms=1)
    found: Any = SimpleNamespace(
        log="t/0", run=SimpleNamespace(run=SimpleNamespace(kind=chunk.BATCHES)), data=good + lying + good
    )
    damage = inspection._Damage()
    assert [row["value"] for row in inspection._record_rows(found, damage)] == ["good", "good"]
    assert damage.places == {"the batch of t/0 at offset 0"}
    assert "longer than 10 bytes; the rest follows" in capsys.readouterr().err


# -- folders that somebody prepared


def test_a_repair_follows_no_link_out_of_the_folder(folder: Path, tmp_path: Path, hutong: Hutong) -> None:
    journal = damage(folder)
    outside = tmp_path / "outside"
    journal.rename(outside)
    journal.symlink_to(outside)
    before = outside.read_bytes()
    code, _, err = hutong("doctor", folder, "--repair", "--yes")
    assert (code, outside.read_bytes()) == (74, before)
    assert f"{journal}: it is a symbolic link" in err


def test_what_is_written_anew_is_not_written_through_a_link(folder: Path, tmp_path: Path, hutong: Hutong) -> None:
    index = journal_of(folder).with_suffix(".index")
    index.write_bytes(b"damaged")
    victim = tmp_path / "victim"
    victim.write_text("secret")
    index.with_name(f"{index.name}.tmp").symlink_to(victim)
    code, _, err = hutong("doctor", folder, "--repair", "--yes")
    assert (code, victim.read_text()) == (74, "secret")
    assert "it is a symbolic link" in err


def test_the_lock_is_no_link(folder: Path, tmp_path: Path, hutong: Hutong) -> None:
    (folder / "hutong.lock").unlink()
    (folder / "hutong.lock").symlink_to(tmp_path / "made elsewhere")
    assert hutong("doctor", folder)[0] == 73
    assert not (tmp_path / "made elsewhere").exists()


@pytest.mark.parametrize("name", ["hutong.json", "groups/days/checkpoint", "groups/days/00000000000000999999.journal"])
def test_nobody_waits_for_a_pipe(name: str, folder: Path, hutong: Hutong) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    code, _, err = hutong("doctor", folder, "--repair", "--yes")
    assert code in (65, 74)
    assert str(folder / name) in err


@pytest.mark.parametrize("suffix", [".index", "checkpoint"])
def test_a_file_with_a_hole_of_gigabytes_is_not_read_whole(suffix: str, folder: Path, hutong: Hutong) -> None:
    path = journal_of(folder).with_suffix(".index") if suffix == ".index" else folder / "groups" / "days" / suffix
    os.truncate(path, 200 << 30)
    assert hutong("doctor", folder)[0] == 65
    assert hutong("doctor", folder, "--repair", "--yes")[0] == 0


def test_a_segment_that_no_writer_made_is_told(folder: Path, hutong: Hutong) -> None:
    os.truncate(journal_of(folder), 2 << 40)
    code, _, err = hutong("doctor", folder)
    assert code == 65
    assert "more than any segment" in err

import os
from pathlib import Path

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.results import prepare_folder, write_csv, write_text


def test_rows_are_written_with_all_digits_and_quoted_where_needed(tmp_path: Path) -> None:
    write_csv(tmp_path / "r.csv", ("page", "rank"), [("a", 0.1 + 0.2), ('b,"c"', 1.0)])
    assert (tmp_path / "r.csv").read_bytes() == b'page,rank\na,0.30000000000000004\n"b,""c""",1.0\n'


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    def rows() -> object:
        yield ("first",)
        raise RuntimeError("broken off")

    write_csv(tmp_path / "r.csv", ("x",), [("old",)])
    with pytest.raises(RuntimeError):
        write_csv(tmp_path / "r.csv", ("x",), rows())  # type: ignore[arg-type]
    assert (tmp_path / "r.csv").read_text() == "x\nold\n"
    write_csv(tmp_path / "r.csv", ("x",), [("new",)])
    write_text(tmp_path / "t.txt", "text")
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "t.txt"]


def test_the_output_folder_is_made(tmp_path: Path) -> None:
    assert prepare_folder(tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made") as told:
        prepare_folder(tmp_path / "file" / "folder")
    assert told.value.exit_code == 73

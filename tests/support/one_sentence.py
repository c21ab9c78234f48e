"""A check of the command line: an error is one sentence and a code of sysexits.h."""

import pytest

from hutong.cli import main


def assert_one_sentence(command: str, code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command that ends with `code` and prints nothing but a sentence with `words` on standard error."""
    assert main.run(command.split()) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.startswith("hutong: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""

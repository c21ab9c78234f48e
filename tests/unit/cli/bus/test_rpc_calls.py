"""`hutong rpc list`, `describe`, `call` and `stats` against services in another process, and how they fail."""

import io
import json
from collections.abc import Iterator

import pytest
from bench.processes import ReadyProcess
from tests.support.grpc_node import serving
from tests.support.one_sentence import assert_one_sentence

from hutong.cli import main


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where services of tests/compat/grpc_services.py are called."""
    process: ReadyProcess
    with serving(tmp_path_factory.mktemp("services"), "listen") as process:
        yield process.fields["rpc"]
        assert process.terminate() == 0


@pytest.fixture(autouse=True)
def _told_by_the_environment(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUTONG_RPC", node)
    monkeypatch.setenv("COLUMNS", "120")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The output of a command that succeeds."""
    assert main.run(["rpc", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_services_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [json.loads(line) for line in printed(capsys, "list", "--json").splitlines()]
    assert [one["address"] for one in listed] == ["compat.shop", "compat.vault"]
    assert listed[1]["actions"] == ["open"]
    assert "compat.vault" in printed(capsys, "list")
    told = printed(capsys, "describe", "compat.shop")
    assert told.startswith("Shop at compat.shop\n  Sells things.\n")
    assert "\ncount(start: int, stop: int) -> AsyncIterator[int]\n  Numbers, as fast" in told
    assert "\nerror 17: OutOfStock\n  Nothing is left of an item.\n" in told
    assert json.loads(printed(capsys, "describe", "compat.vault", "--json"))["methods"][0]["name"] == "open"


def test_results_are_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = '{"lines": [{"item": "nut", "price": "1.5"}], "payment": {"type": "ByInvoice", "days": 3}}'
    order = json.loads(printed(capsys, "call", "compat.shop.place", arguments))
    assert (order["total"], order["state"], order["at"]) == ("1.5", "shipped", "2026-01-02T03:04:05.678000Z")
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "piped"}'))
    assert printed(capsys, "call", "compat.shop.echo", "-") == '"piped"\n'
    assert printed(capsys, "call", "compat.vault.open", "--header", "auth-token=sesame") == '"treasure"\n'


def test_a_stream_is_an_item_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "call", "compat.shop.count", '{"start": 100, "stop": 300}')
    assert out.splitlines() == [str(number) for number in range(100, 300)]
    assert main.run(["rpc", "call", "compat.shop.count", '{"start": 11, "stop": 13}']) == 76
    told = capsys.readouterr()
    assert told.out == "11\n12\n"
    assert told.err == "hutong: The call of compat.shop.count failed with code 17: no more numbers.\n"


def test_calls_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    def counted() -> int:
        rows = [json.loads(line) for line in printed(capsys, "stats", "compat.shop", "--json").splitlines()]
        return int(next(row["requests_total"] for row in rows if row["method"] == "produced"))

    before = counted()
    printed(capsys, "call", "compat.shop.produced")
    assert counted() == before + 1
    assert "produced" in printed(capsys, "stats")


TEA = '{"lines":[{"item":"tea","price":"1"}],"payment":{"type":"ByCard","number":"1"}}'


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (f"call compat.shop.place {TEA}", 76, "failed with code 17: no tea is left."),
        ("call compat.vault.open", 77, "is not permitted (401)"),
        ('call compat.shop.echo {"txt":1}', 65, "there is no parameter 'txt'"),
        ("call compat.shop.refund", 65, "`hutong rpc describe compat.shop` shows the methods."),
        ("call compat.shop.plaec", 65, "; did you mean place?"),
        ("call compat.bank.place", 66, "found no service: nobody is bound at 'compat.bank'"),
        ("call compat.shp.place", 66, "; did you mean compat.shop.place? `hutong rpc list`"),
        ("call echo", 64, "'echo' names no method; write ADDRESS.METHOD"),
        ("call compat.shop.echo [1]", 65, "Arguments are an object"),
        ("call compat.shop.echo {", 65, "The arguments are no JSON"),
        ("call compat.shop.echo --header name", 64, "write --header NAME=VALUE"),
        ('call compat.shop.sleep {"seconds":0.5} --timeout 50', 75, "was not answered (CallTimeout)"),
        ("describe compat.bank", 66, "No service is bound at 'compat.bank' here"),
        ("stats compat.bank", 66, "No service is bound at compat.bank"),
        ("list --node 127.0.0.1:1", 69, "No node answers calls at 127.0.0.1:1"),
        ("list --node nowhere", 64, "'nowhere' is no address"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    command: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_one_sentence(f"rpc {command}", code, words, capsys)

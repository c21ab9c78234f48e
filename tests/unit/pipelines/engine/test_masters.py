import socket

import pytest

from hutong.foundation.errors import UsageError
from hutong.pipelines.engine.masters import addresses, check_answers, is_connect, is_local, is_on_this_machine


@pytest.mark.parametrize(
    ("master", "local", "connect", "here"),
    [
        ("local", True, False, True),
        ("local[2]", True, False, True),
        ("local-cluster[2,1,1024]", False, False, False),
        ("spark://127.0.0.1:7077", False, False, True),
        ("spark://127.0.0.1:7077,far:7077", False, False, False),
        ("sc://localhost", False, True, True),
        ("sc://far:15002/;use_ssl=true", False, True, False),
        ("yarn", False, False, False),
        ("k8s://https://127.0.0.1:6443", False, False, False),
    ],
)
def test_masters_are_told_apart(master: str, local: bool, connect: bool, here: bool) -> None:
    assert (is_local(master), is_connect(master), is_on_this_machine(master)) == (local, connect, here)


def test_addresses_are_read_where_there_are_any() -> None:
    assert addresses("spark://one:1,two") == [("one", 1), ("two", 7077)]
    assert addresses("sc://[::1]:7/;token=x") == [("::1", 7)]
    assert addresses("sc://host") == [("host", 15002)]
    assert addresses("yarn") == addresses("local[2]") == ()
    for wrong in ("spark://", "spark://:1", "sc://host:many", "spark://host:0"):
        with pytest.raises(UsageError, match="is not of the form"):
            addresses(wrong)


def test_nobody_there_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_answers(f"spark://127.0.0.1:{port}")
    with pytest.raises(UsageError, match=rf"no Spark master answers at 127.0.0.1:{port}"):
        check_answers(f"spark://127.0.0.1:{port}")
    with pytest.raises(UsageError, match="no Spark Connect server answers"):
        check_answers(f"sc://127.0.0.1:{port}")
    check_answers("yarn")

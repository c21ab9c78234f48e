"""A stock gRPC client in Go, with stubs that Go's plugins of protoc generated from what `hutong rpc proto` prints."""

import json
import subprocess
from typing import Any

import pytest

pytest.importorskip("grpc_tools")

from tests.support.golang import BUILD_S_MAX, grpc_client
from tests.support.grpc_node import print_proto, serving

RUN_S_MAX = 90.0
pytestmark = pytest.mark.timeout(BUILD_S_MAX + RUN_S_MAX + 60)


@pytest.fixture(scope="module")
def go_services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers that the client got, by scenario."""
    folder = tmp_path_factory.mktemp("go")
    print_proto("Shop", folder / "compat_shop.proto")
    program = grpc_client(folder / "compat_shop.proto")
    with serving(folder) as services:
        command = [str(program), services.fields["grpc"]]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert not ran.returncode, ran.stderr
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    return {one.pop("scenario"): one for one in told}


def test_structs_enums_times_and_unions_cross(go_services: dict[str, Any]) -> None:
    assert go_services["place"] == {
        "number": "00000000-0000-0000-0000-000000000007",
        "total": "6.50",
        "state": "STATE_SHIPPED",
        "at": "2026-01-02T03:04:05.678Z",
        "card": "42",
        "note": "soon",
        "counts": [3, 1],
    }


def test_a_service_s_error_has_a_status_and_its_code(go_services: dict[str, Any]) -> None:
    assert go_services["fail"] == {
        "status": "FailedPrecondition",
        "message": "no tea is left",
        "code": ["17"],
        "error": ["OutOfStock"],
        "debug": ['{"item":"tea"}'],
    }
    assert go_services["wrong"] == {"status": "InvalidArgument"}


def test_a_stream_in_order_and_one_that_is_left(go_services: dict[str, Any]) -> None:
    assert go_services["stream"] == {"next": 1_003, "closed": 1}
    assert go_services["leave"] == {"bytes": 100_000, "status": "Canceled", "closed": 1}


def test_standard_statuses(go_services: dict[str, Any]) -> None:
    assert go_services["deadline"] == {"status": "DeadlineExceeded"}
    assert go_services["unknown"] == {"status": "Unimplemented"}
    assert go_services["oversized"] == {"status": "ResourceExhausted", "then": "still there"}


def test_headers_and_reflection(go_services: dict[str, Any]) -> None:
    assert go_services["headers"] == {"value": "a/1"}
    assert {"compat.shop.Shop", "compat.vault.Vault"} <= set(go_services["list"]["names"])

"""Requests that are refused as a whole: each place for a code has it, in every version."""

from typing import Any

import pytest
from tests.support.every_api import SAMPLES, samples

from hutong.broker.apis import BROKER_APIS
from hutong.broker.dispatch.coordinated import COORDINATED
from hutong.broker.dispatch.request_errors import errors_in
from hutong.broker.dispatch.whole_refusals import refused_whole
from hutong.wire.kafka.headers import encode_response_frame
from hutong.wire.kafka.registry import APIS

CODE = 41
REFUSABLE = sorted({*COORDINATED, *(key for key, api in BROKER_APIS.items() if api.is_forwarded)})


def asked_by(api_key: int) -> list[tuple[Any, int]]:
    """Requests and their versions. Without samples are those that every user may send, about what is the user's own."""
    if api_key not in SAMPLES:
        api = APIS[api_key]
        return [(api.request(), version) for version in api.versions]
    topic_ids: Any = dict.fromkeys(("t", "orders", "topic"), b"1" * 16)
    asked = list(samples(api_key, topic_ids))
    assert asked
    return asked


@pytest.mark.parametrize("api_key", REFUSABLE)
def test_a_refusal_has_the_code_and_nothing_else(api_key: int) -> None:
    for request, version in asked_by(api_key):
        response = refused_whole(api_key, request, CODE)
        assert errors_in(api_key)(response) == {CODE}
        assert encode_response_frame(api_key, version, 1, response)
        for other in APIS[api_key].versions:
            encode_response_frame(api_key, other, 1, response)

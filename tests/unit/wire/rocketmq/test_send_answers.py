"""Answers to sends by the template are those of the general encoder, to the byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.wire.rocketmq.command import BINARY, IS_RESPONSE, JSON, Command, encode
from hutong.wire.rocketmq.send_answers import SendAnswers


@pytest.mark.parametrize("form", [BINARY, JSON])
@given(
    st.integers(0, 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40 - 1),
    st.sampled_from([0, 10]),
    st.binary(min_size=8, max_size=8),
)
def test_a_template_has_the_bytes_of_the_encoder(
    form: int, queue: int, opaque: int, physical: int, offset: int, code: int, host: bytes
) -> None:
    id_begin = host.hex().upper()
    fields = {"msgId": f"{id_begin}{physical:016X}", "queueId": str(queue), "queueOffset": str(offset)}
    answer = Command(code, opaque, IS_RESPONSE, fields=fields, serialization=form)
    assert [SendAnswers(id_begin, queue).frame(form, code, opaque, physical, offset)] == encode(answer)

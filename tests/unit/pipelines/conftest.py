"""Tests of compiled passes need the extra `spark` (numba, numpy, pyarrow); they are left out where it is missing.

Where it is there, the passes are compiled before the first test, so that no test pays for it.
"""

from importlib.util import find_spec

import pytest

NEED_NUMBA = [
    "source/decode",
    "source/rows/test_columns.py",
    "source/test_fetching.py",
    "sink/encode",
    "sink/test_producing.py",
    "test_native.py",
]
collect_ignore = [] if find_spec("numba") else NEED_NUMBA


@pytest.fixture(scope="session", autouse=True)
def compiled_passes() -> None:
    if not find_spec("numba"):
        return
    import pyarrow as pa

    from hutong.pipelines.client.identities import Producer
    from hutong.pipelines.sink.encode.encoder import Encoder, seal
    from hutong.pipelines.source.decode.decoder import Decoder
    from hutong.pipelines.source.decode.index import index_batches
    from hutong.pipelines.source.options import COLUMNS
    from hutong.wire.kafka.batch.compression import Compression

    table = pa.RecordBatch.from_arrays([pa.array(["v"])], names=["value"])
    (records,) = Encoder("t", Compression.NONE, 1000, lambda _: 1, 0, lambda: 0).encode(table)
    batch = seal(records, Producer(-1, -1), -1, 0)
    assert len(list(Decoder("t", 0, tuple(COLUMNS)).decode(batch, index_batches(batch), 0, 1))) == 1

"""Frame memory: a buffer is used again when nobody looks at it, and never before."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.reactor.frames.frame_memory import FrameMemory
from hutong.reactor.frames.framing import DIRECT_FROM_BYTES, LengthPrefixedFraming, length_prefixed


def test_a_buffer_comes_back_once_its_views_are_gone() -> None:
    memory, buffer = FrameMemory(), bytearray(b"x" * 100)
    view = memoryview(buffer)[:50]
    memory.keep_buffer(buffer)
    assert memory.take_buffer(100) is None
    view.release()
    assert memory.take_buffer(101) is None
    assert memory.take_buffer(10) is buffer
    assert buffer == b"x" * 100
    assert memory.take_buffer(10) is None
    assert (memory.reused_total, memory.kept_bytes) == (1, 0)


def test_the_most_recent_free_buffer_comes_first() -> None:
    memory, buffers = FrameMemory(), [bytearray(10) for _ in range(3)]
    views = [memoryview(buffer) for buffer in buffers]
    for buffer in buffers:
        memory.keep_buffer(buffer)
    views[0].release()
    views[1].release()
    assert memory.take_buffer(10) is buffers[1]
    assert memory.take_buffer(10) is buffers[0]
    assert memory.take_buffer(10) is None


def test_what_is_kept_is_bounded() -> None:
    memory = FrameMemory(kept_bytes_max=250)
    for number in range(5):
        memory.keep_buffer(bytearray([number]) * 100)
    assert memory.kept_bytes == 200
    memory.keep_buffer(bytearray(300))
    assert memory.kept_bytes == 0
    assert memory.take_buffer(1) is None


frames = st.lists(st.tuples(st.integers(DIRECT_FROM_BYTES, 3 * DIRECT_FROM_BYTES), st.booleans()), max_size=20)


@given(frames)
def test_a_frame_that_is_held_keeps_its_bytes(script: list[tuple[int, bool]]) -> None:
    make_framing = length_prefixed()
    framings = [make_framing(1 << 20), make_framing(1 << 20)]
    held: list[tuple[bytes, object]] = []
    for number, (size, is_held) in enumerate(script):
        payload = bytes([number]) * size
        frame = receive_in_two(framings[number % 2], payload)
        assert bytes(frame) == payload
        if is_held:
            held.append((payload, frame))
        del frame
        assert all(bytes(view) == expected for expected, view in held)  # type: ignore[call-overload]


def receive_in_two(framing: LengthPrefixedFraming, payload: bytes) -> memoryview:
    framing.receive_data(len(payload).to_bytes(4, "big") + payload[:100])
    (frame,) = framing.receive_data(payload[100:])
    assert isinstance(frame, memoryview)
    return frame


def test_frames_of_one_size_need_one_buffer() -> None:
    memory = FrameMemory()
    framing = LengthPrefixedFraming(1 << 20, memory)
    for number in range(10):
        receive_in_two(framing, bytes([number]) * 100_000)
    assert memory.reused_total == 9
    assert memory.kept_bytes == 100_000

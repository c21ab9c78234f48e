"""Back-off of one address."""

from hutong.remoting.dialling.machine import BackOff


def test_pauses_double_up_to_the_bound_and_end_with_success() -> None:
    back_off = BackOff(100, 1_000)
    assert back_off.pause_ms(0) == 0
    pauses = []
    for _ in range(6):
        back_off.failed(5_000, chance=0)
        pauses.append(back_off.pause_ms(5_000))
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
    assert back_off.pause_ms(5_400) == 600
    assert back_off.pause_ms(6_000) == 0
    back_off.succeeded()
    assert back_off.pause_ms(5_000) == 0
    back_off.failed(7_000, chance=1)
    assert back_off.pause_ms(7_000) == 50


def test_many_failures_do_not_overflow() -> None:
    back_off = BackOff(100, 5_000)
    for _ in range(100_000):
        back_off.failed(0, 0.5)
    assert back_off.pause_ms(0) == 3_750

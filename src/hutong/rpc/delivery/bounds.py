"""Bounds of the call memory: refusals of new calls, by a session's age and by the entries held.

Pure: functions of numbers.
"""

from typing import Final

from hutong.rpc.delivery.messages import CallRefusal, MemorySettings, Reason

EXPIRED: Final = CallRefusal(Reason.EXPIRED)
_FROM_THE_FUTURE: Final = CallRefusal(Reason.FROM_THE_FUTURE)


def age_refusal(settings: MemorySettings, began_ms: int, horizon_ms: int, now_ms: int) -> CallRefusal | None:
    """Return the reason to refuse an unknown session that started at `began_ms`, or None."""
    # Sessions up to the horizon may have been deleted. The second test refuses sessions that are about to be, with
    # room for the skew of clocks, so that none is accepted and forgotten while it is in use.
    if began_ms <= horizon_ms or began_ms <= now_ms - settings.keep_for_ms + settings.clock_skew_ms:
        return EXPIRED
    # A session from the future would outlive the horizon, which is a session's own time.
    return _FROM_THE_FUTURE if began_ms > now_ms + settings.clock_skew_ms else None


def total_refusal(settings: MemorySettings, *held: tuple[str, int]) -> CallRefusal | None:
    """Return a refusal if one of the totals, each with the name of its bound, is at its bound."""
    for limit, count in held:
        if count >= getattr(settings, limit):
            return CallRefusal(Reason.FULL, limit, getattr(settings, limit))
    return None


def share_refusal(settings: MemorySettings, *held: tuple[str, int]) -> CallRefusal | None:
    """Return a refusal if one caller's entries are at its share of a bound."""
    for limit, count in held:
        # At least one, so that small bounds do not shut callers out.
        maximum = max(1, getattr(settings, limit) // settings.caller_shares)
        if count >= maximum:
            return CallRefusal(Reason.FULL, f"{limit} of one caller", maximum)
    return None

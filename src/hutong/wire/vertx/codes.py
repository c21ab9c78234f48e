"""Error codes of the two event-bus bridges, and other differences between them.

The codes of the SockJS bridge are Vert.x's own. The TCP bridge of Vert.x knows few of them and leaves the rest
unanswered; here it answers with the same codes.
"""

from enum import Enum, StrEnum


class Dialect(Enum):
    """The two forms of the bridge protocol: frames over TCP, and frames inside SockJS."""

    TCP = "tcp"
    SOCKJS = "sockjs"


class Code(StrEnum):
    """The error code for a refused frame: `message` of an `err` frame over TCP, `body` of one over SockJS."""

    INVALID_JSON = "invalid_json"  # no JSON object, no UTF-8, a lone surrogate, nested too deeply or too vast
    MISSING_TYPE = "missing_type"
    INVALID_TYPE = "invalid_type"  # SockJS's word for a type that is none of the five
    UNKNOWN_TYPE = "unknown_type"  # and the TCP bridge's
    MISSING_ADDRESS = "missing_address"  # or one that is no text, or empty
    ADDRESS_TOO_LONG = "max_address_length_reached"
    INVALID_REPLY_ADDRESS = "invalid_reply_address"  # no text, empty, or too long
    INVALID_HEADERS = "invalid_headers"  # no object of texts and numbers, too many, too long, or a wrong option in them
    INVALID_FAILURE = "invalid_failure"  # failureCode is no 32-bit number, or message no text
    ACCESS_DENIED = "access_denied"
    AUTH_ERROR = "auth_error"  # asking who it is went wrong
    NOT_LOGGED_IN = "not_logged_in"
    REJECTED = "rejected"  # SockJS's word for what the event hook blocked
    BLOCKED = "blocked by bridgeEvent handler"  # and the TCP bridge's
    UNKNOWN_ADDRESS = "unknown_address"  # TCP: nothing is registered there
    MAX_HANDLERS_REACHED = "max_handlers_reached"
    ALREADY_REGISTERED = "address_already_registered"  # SockJS: once per address and socket
    REGISTRATION_FAILURE = "registration_failure"
    NOT_DELIVERED = "not_delivered"  # the bus refused it: one of its bounds, or an unknown codec
    FRAME_TOO_LARGE = "frame_too_large"  # and the connection is closed
    SLOW_CLIENT = "slow_client"  # and the connection is closed
    NOT_JSON = "not_json"  # a message for this client has a body that JSON cannot carry

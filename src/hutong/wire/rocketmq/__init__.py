"""The frames that RocketMQ's clients and servers exchange: bytes to values and back, without a socket."""

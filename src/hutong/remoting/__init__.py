"""Remoting: duplex command frames over the reactor, as RocketMQ's clients and servers speak them. Knows no topics."""

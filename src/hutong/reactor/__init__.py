"""Reactor: accepts connections, cuts bytes into frames, hands them to a handler, sends its answers back in order.

Knows frames and limits; knows no protocol above the frame, no topics, and never what a request means.
"""

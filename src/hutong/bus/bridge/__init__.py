"""The bridges' common part: what a client outside may do on the event bus, and its session there.

`permissions` decides who may use which address, `machine` what a client's frame or a message for it leads to, `driver`
carries that out on an `EventBus`. The transports (TCP, SockJS) bring whole frames and take whole frames away.
"""

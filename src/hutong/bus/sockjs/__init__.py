"""The SockJS bridge: browsers on the event bus, by WebSocket or by a fallback that their network permits.

`http` and `websocket` turn bytes into requests and messages, `routes` maps paths to endpoints, `answers` makes the
plain answers. `machine` keeps a session's rules for every transport, `transports` wraps its frames for each of them,
`driver` carries out what sessions decide, `handler` serves the connections, and `server` is opened and closed.

The protocol is SockJS 0.3.4, as sockjs-client 1.x speaks it.
"""

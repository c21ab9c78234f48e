"""The SockJS bridge: browsers on the event bus, by WebSocket or by a fallback that their network permits.

`http` and `websocket` turn bytes into requests and messages, `routes` says what a path means, `answers` what is said
back, `machine` keeps a session's rules for every transport, `transports` clothes its frames for each way of carrying
them, `driver` ties these to connections of the reactor, and `server` is what is opened and closed.

The protocol is SockJS 0.3.4, as sockjs-client 1.x speaks it.
"""

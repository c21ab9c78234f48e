"""The SockJS bridge: browsers on the event bus, by WebSocket or by whatever their network lets through.

`http` and `websocket` turn bytes into requests and messages, `routes` says what a path means, `answers` what is said
back, `machine` keeps a session's rules whatever carries it, `transports` clothes its frames for each way of carrying
them, `driver` ties these to connections of the reactor, and `server` is what is opened and closed.

The protocol is SockJS 0.3.4, as sockjs-client 1.x speaks it.
"""

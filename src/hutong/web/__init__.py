"""HTTP/1.1 and WebSocket on the reactor's connections: the one implementation for metrics, SockJS and services.

Strategy: `machine` is a connection's engine, `channel` its order of events, `driver` carries requests to the handlers
of routes, which return values. Knows no application.
"""

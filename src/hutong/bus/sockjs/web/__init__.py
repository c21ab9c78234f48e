"""SockJS over HTTP: requests, WebSocket frames, routes and the ways of carrying a session."""

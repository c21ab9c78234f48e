"""RPC over the event bus, by the convention of Vert.x's service proxies."""

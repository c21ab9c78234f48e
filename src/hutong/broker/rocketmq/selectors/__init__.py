"""Selectors: expressions in SQL92 by which consumers choose messages, as RocketMQ's `rocketmq-filter` takes them."""

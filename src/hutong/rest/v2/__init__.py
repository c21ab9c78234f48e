"""The v2 API of Confluent's REST proxy: producing, topics, and consumers of groups that live between requests."""

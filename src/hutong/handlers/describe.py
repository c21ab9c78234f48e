"""The AsyncAPI 3.0 document of an app: its channels, operations and messages.

Strategy: the document is made of the declarations alone, so it needs no broker. Each topic and each address is a
channel; a handler is a `receive` operation, its results and dead letters are `send` operations.

Knows no client library.
"""

import re
from typing import TYPE_CHECKING, Any, Final

from hutong.handlers.declare.models import json_schemas
from hutong.handlers.declare.options import AddressHandler, Output, TopicHandler

if TYPE_CHECKING:
    from hutong.handlers.app import App

JSON: Final = "application/json"
KAFKA_BINDING: Final = "0.5.0"
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9_-]")  # validators refuse anything else in a name, dots included


def asyncapi_document(app: "App") -> dict[str, Any]:
    """A dict for JSON. The same app gives the same document."""
    description = _Description(app)
    for handler in app.topic_handlers:
        description.add_topics(handler)
    for address in app.address_handlers:
        description.add_address(address)
    return description.document()


class _Description:
    """The document while it grows."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._channels: dict[str, Any] = {}
        self._keys: dict[tuple[str, str], str] = {}  # of the channels, by server and address
        self._operations: dict[str, Any] = {}
        self._messages: dict[str, Any] = {}
        self._servers: dict[str, Any] = {}
        signatures = [handler.signature for handler in app.topic_handlers]
        signatures += [handler.signature for handler in app.address_handlers]
        models = [model for signature in signatures for model in (signature.model, signature.returned)]
        unique = list({repr(model): model for model in models if model is not None}.values())
        self._schemas, self._named = json_schemas(unique)

    def add_topics(self, handler: TopicHandler) -> None:
        self._servers["kafka"] = {"host": self._app.bootstrap.partition(",")[0], "protocol": "kafka"}
        group = {"type": "string", "enum": [handler.group]}
        for topic in handler.topics:
            name = handler.name if len(handler.topics) == 1 else f"{handler.name}.{topic}"
            operation = self._operation("receive", "kafka", topic, handler.signature.model, handler)
            operation["bindings"] = {"kafka": {"groupId": group, "bindingVersion": KAFKA_BINDING}}
            self._add(name, operation)
        if handler.to is not None:
            returned = handler.signature.returned
            # A list is a record for each element.
            result = getattr(returned, "__args__", (Any,))[0] if _is_list(returned) else returned
            operation = self._operation("send", "kafka", handler.to, self._known(result), handler)
            self._add(f"{handler.name}.result", operation)
        if handler.dead_letters is not None:
            operation = self._operation("send", "kafka", handler.dead_letters, handler.signature.model, handler)
            self._add(f"{handler.name}.dead", operation)

    def add_address(self, handler: AddressHandler) -> None:
        self._servers["bus"] = {"host": "in-process", "protocol": "eventbus"}
        signature = handler.signature
        operation = self._operation("receive", "bus", handler.address, signature.model, handler)
        if signature.returned is not None:
            reply = self._operation("send", "bus", f"{handler.address}.reply", signature.returned, handler)
            # The bus makes an address for each request.
            self._channels[reply["channel"]["$ref"].rpartition("/")[2]]["address"] = None
            operation["reply"] = {"channel": reply["channel"], "messages": reply["messages"]}
        self._add(signature.name, operation)

    def document(self) -> dict[str, Any]:
        return {
            "asyncapi": "3.0.0",
            "info": {"title": self._app.title, "version": self._app.version},
            "defaultContentType": JSON,
            "servers": self._servers,
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._named},
        }

    def _add(self, name: str, operation: dict[str, Any]) -> None:
        self._operations[_free_key(self._operations, name, operation)] = operation  # functions may have one name

    def _operation(
        self, action: str, server: str, address: str, model: Any, handler: TopicHandler | AddressHandler
    ) -> dict[str, Any]:
        message = self._message(address, model)
        channel = self._keys.setdefault((server, address), _free_key(self._channels, address))
        entry = self._channels.setdefault(
            channel, {"address": address, "servers": [{"$ref": f"#/servers/{server}"}], "messages": {}}
        )
        entry["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        operation: dict[str, Any] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        }
        text = (handler.signature.function.__doc__ or "").strip()
        if text and action == "receive":
            operation["summary"] = text.splitlines()[0]
        return operation

    def _message(self, address: str, model: Any) -> str:
        is_named = isinstance(model, type) and not hasattr(model, "__args__") and model.__module__ != "builtins"
        name = model.__name__ if is_named else f"{address}.message"
        content_type = "application/octet-stream" if model is bytes else "text/plain" if model is str else JSON
        message = {"name": name, "contentType": content_type, "payload": self._schemas.get(model, {})}
        key = _free_key(self._messages, name, message)
        self._messages[key] = message
        return key

    def _known(self, model: Any) -> Any:
        if model is Output:  # its value may be anything
            return Any
        if model is not None and model not in self._schemas:
            schemas, named = json_schemas([model])
            self._schemas |= schemas
            self._named |= named
        return model


def _is_list(returned: Any) -> bool:
    return getattr(returned, "__origin__", returned) is list


def _free_key(table: dict[str, Any], name: str, value: object = None) -> str:
    """A key for a name: the same where the table has this value under it, another one where it has another."""
    first = key = _NOT_IN_A_KEY.sub("_", name)
    number = 2
    while key in table and table[key] != value:
        key = f"{first}_{number}"
        number += 1
    return key

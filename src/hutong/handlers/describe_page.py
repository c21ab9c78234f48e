"""The page of an AsyncAPI document: what an app receives, sends and answers, for people.

Strategy: one HTML file without scripts, fonts or images, so that it can be sent, kept with a build, or served by
anything. Every text of the document is escaped: docstrings, names and defaults are the program's.

Knows the document alone, not the app.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = """
:root { color-scheme: light dark; --line: light-dark(#d4d8dd, #3a4149); --soft: light-dark(#57606a, #9aa4af); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 small, .soft { color: var(--soft); font-weight: normal; }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
code { overflow-wrap: anywhere; }
"""
_WORDS: Final = {"receive": "receives", "send": "sends"}
_DEPTH_MAX: Final = 20  # of types within each other; models that contain themselves are links


def asyncapi_page(document: Mapping[str, Any]) -> str:
    """The HTML of a document that `asyncapi_document` has made. The same document gives the same page."""
    info = document["info"]
    title = escape(str(info["title"]))
    operations = "".join(_operation(document, name, each) for name, each in document["operations"].items())
    models = "".join(_model(name, each) for name, each in document["components"]["schemas"].items())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Nothing is loaded, whatever a text of the program may contain.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{title} <small>{escape(str(info['version']))}</small></h1>"
        f"{_contents(document)}{operations}"
        f"{'<h2>Models</h2>' if models else ''}{models}</main></body></html>\n"
    )


def _contents(document: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td><a href="#operation-{escape(name)}">{escape(name)}</a></td><td>{_WORDS[operation["action"]]}</td>'
        f"<td>{_place(document, operation)}</td></tr>"
        for name, operation in document["operations"].items()
    )
    return f'<div class="wide"><table><tr><th>Operation</th><th></th><th>Channel</th></tr>{rows}</table></div>'


def _operation(document: Mapping[str, Any], name: str, operation: Mapping[str, Any]) -> str:
    lines = [f'<section id="operation-{escape(name)}"><h2>{escape(name)}</h2>']
    if "summary" in operation:
        lines.append(f"<p>{escape(operation['summary'])}</p>")
    # What is sent, and addresses of the bus, have no group.
    group = operation.get("bindings", {}).get("kafka", {}).get("groupId", {}).get("enum", [])
    as_group = f" as group <code>{escape(group[0])}</code>" if group else ""
    lines.append(f"<p>{_WORDS[operation['action']].capitalize()} {_place(document, operation)}{as_group}</p>")
    lines += [_message(document, reference["$ref"]) for reference in operation["messages"]]
    if "reply" in operation:
        lines.append("<p>Answers with</p>")
        lines += [_message(document, reference["$ref"]) for reference in operation["reply"]["messages"]]
    return "".join([*lines, "</section>"])


def _place(document: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    channel = _found(document, operation["channel"]["$ref"])
    servers = ", ".join(_found(document, server["$ref"])["protocol"] for server in channel["servers"])
    return f'<code>{escape(channel["address"])}</code> <span class="soft">{escape(servers)}</span>'


def _message(document: Mapping[str, Any], reference: str) -> str:
    # The messages of a channel are references into the components.
    message = _found(document, reference)
    message = _found(document, message["$ref"]) if "$ref" in message else message
    return (
        f'<p><b>{escape(message["name"])}</b> <span class="soft">{escape(message["contentType"])}</span>: '
        f"{_type(message['payload'])}</p>"
    )


def _model(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_type(kind)}</td>"
        f"<td>{'required' if field in required else _default(kind)}</td>"
        f"<td>{escape(kind.get('description', ''))}</td></tr>"
        for field, kind in schema.get("properties", {}).items()
    )
    described = f"<p>{escape(schema['description'])}</p>" if "description" in schema else ""
    heads = "<tr><th>Field</th><th>Type</th><th></th><th></th></tr>"
    fields = f'<div class="wide"><table>{heads}{rows}</table></div>' if rows else f"<p>{_type(schema)}</p>"
    return f'<section id="model-{escape(name)}"><h3>{escape(name)}</h3>{described}{fields}</section>'


def _default(kind: Mapping[str, Any]) -> str:
    return f"by default <code>{escape(json.dumps(kind['default']))}</code>" if "default" in kind else "optional"


def _type(kind: Any, depth: int = 0) -> str:
    """A JSON schema in a few words."""
    # Without a keyword, or as `true`, a schema takes anything (JSON Schema 2020-12, 4.3.1).
    if not isinstance(kind, dict) or not kind or depth > _DEPTH_MAX:
        return "anything"
    if "$ref" in kind:
        name = escape(str(kind["$ref"]).rpartition("/")[2])
        return f'<a href="#model-{name}">{name}</a>'
    for word in ("anyOf", "oneOf", "allOf"):
        if word in kind:
            return " or ".join(_type(each, depth + 1) for each in kind[word])
    if "enum" in kind or "const" in kind:
        return " or ".join(f"<code>{escape(json.dumps(each))}</code>" for each in kind.get("enum", [kind.get("const")]))
    if kind.get("type") == "array":
        return f"list of {_type(kind.get('items'), depth + 1)}"
    if kind.get("type") == "object" and "additionalProperties" in kind and not kind.get("properties"):
        return f"object with values of {_type(kind['additionalProperties'], depth + 1)}"
    form = f" ({escape(str(kind['format']))})" if "format" in kind else ""
    return f"{escape(str(kind.get('type', 'anything')))}{form}"


def _found(document: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    """The object that a reference of the document itself names (RFC 6901; keys here need no escapes)."""
    found: Any = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return dict(found)

"""Names of subjects with their contexts: `:.ctx:name`, or `name` in the default context.

Strategy: a context is a registry of its own within the registry, with its own ids. Equal subjects have one spelling
here, so they can be keys.
"""

from typing import Final

from hutong.foundation.errors import Refused
from hutong.registry.values import SUBJECT_CHARACTERS_MAX, RegistryCode

DEFAULT_CONTEXT: Final = "."


def split(subject: str) -> tuple[str, str]:
    """Context and name. A text that begins as a context without being one is a name as it is."""
    if subject.startswith(":."):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return context, name
    return DEFAULT_CONTEXT, subject


def qualified(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """The one spelling of a subject that is named within a context. Raises Refused for one that cannot be."""
    if not subject or len(subject) > SUBJECT_CHARACTERS_MAX or any(ord(each) < 32 for each in subject):
        raise Refused(
            RegistryCode.INVALID_SUBJECT,
            f"The specified subject is not valid: it has 1 to {SUBJECT_CHARACTERS_MAX} characters, none of control.",
        )
    own, name = split(subject)
    if subject.startswith(":."):
        context = own
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def scope_of(context: str) -> str:
    """The subject by which configs and modes name a whole context."""
    return f":{context}:"


def context_of_path(text: str) -> str:
    """A context as a path names it: `.ctx`, `ctx`, or `:.ctx:`."""
    text = text.strip(":")
    return text if text.startswith(".") else f".{text}"

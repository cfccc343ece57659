"""An entity's attributes as payloads, and back.

What is encoded is what the next handler gets, so nothing may come back as something else: attributes
that the class body declares are decoded by their hints, others must be plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure._definitions.entities import EntityDefinition
from perdure._payload import Payload
from perdure.converter import PayloadConverter
from perdure.errors import EntityStateError, PayloadDecodeError, PayloadEncodeError, PayloadError

# It must fit into one request with all that goes along to the next run of its key; see the ADR.
STATE_BYTES_MAX = 1024 * 1024

EntityState = Mapping[str, Payload]
"""By attribute."""


def fresh_object(definition: EntityDefinition) -> Any:
    """As a key begins. Raises EntityStateError when the class cannot be made."""
    try:
        return definition.cls()
    except Exception as error:
        raise EntityStateError(f"{definition.cls.__qualname__}() raised: {error!r}") from error


def object_of(
    definition: EntityDefinition, state: EntityState | None, converter: PayloadConverter
) -> Any:
    """Of its own: whatever is done to it changes nothing that is saved. None: a new key.

    Attributes that are not in the state are as the class makes them. Raises EntityStateError when
    state and class do not fit.
    """
    made = fresh_object(definition)
    for name, payload in (state or {}).items():
        try:
            value = converter.from_payload(payload, definition.hints.get(name, Any))
            # Not setattr: a frozen dataclass and a property have their own opinion of that.
            object.__setattr__(made, name, value)
        except (PayloadDecodeError, AttributeError, TypeError) as error:
            raise EntityStateError(
                f"attribute {name!r} of {definition.cls.__qualname__} does not fit what is saved: "
                f"{error}"
            ) from error
    return made


def state_of(definition: EntityDefinition, made: Any, converter: PayloadConverter) -> EntityState:
    """Raises PayloadEncodeError for what cannot be saved, or would not come back as it is."""
    state = {
        name: _encoded(definition, name, value, converter)
        for name, value in _attributes(definition, made).items()
    }
    size_bytes = sum(len(name) + len(payload.data) for name, payload in state.items())
    if size_bytes > STATE_BYTES_MAX:
        raise PayloadEncodeError(
            f"the state of {definition.name} would have {size_bytes} bytes, "
            f"and {STATE_BYTES_MAX} are the most"
        )
    return state


def _attributes(definition: EntityDefinition, made: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(getattr(made, "__dict__", {}))
    for base in type(made).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(made, name) and name not in ("__dict__", "__weakref__"):
                attributes[name] = getattr(made, name)
    return attributes


def _encoded(
    definition: EntityDefinition, name: str, value: Any, converter: PayloadConverter
) -> Payload:
    place = f"{definition.cls.__qualname__}.{name}"
    try:
        payload = converter.to_payload(value)
        if name in definition.hints or _comes_back(value, converter.from_payload(payload)):
            return payload
    except PayloadError as error:
        raise PayloadEncodeError(f"{place} cannot be saved: {error}") from error
    raise PayloadEncodeError(
        f"{place} would not come back as it is: declare its type in the class body, "
        f"as in `{name}: {type(value).__name__}`"
    )


def _comes_back(value: Any, read: Any) -> bool:
    """Equal is not enough: 1 == True, and a list is no tuple."""
    kind = _kind_of(value)
    if kind is not _kind_of(read):
        return False
    if kind is dict:
        return (
            value.keys() == read.keys()
            and all(type(key) is str for key in value)
            and all(_comes_back(one, read[key]) for key, one in value.items())
        )
    if kind is list:
        return len(value) == len(read) and all(map(_comes_back, value, read))
    return bool(value == read)


def _kind_of(value: Any) -> Any:
    return type(value)  # pyright: ignore[reportUnknownVariableType]

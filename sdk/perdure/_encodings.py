"""How single values are written and read: what `perdure.converter` is made of.

Everything may raise whatever it likes; the converter makes it an error with a name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from math import isfinite
from pathlib import PurePath
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from perdure._payload import Payload
from perdure.common import RawValue

Encode = Callable[[Any], Payload]
Decode = Callable[[bytes], Any]

_MESSAGE_TYPE = "messageType"
_AS_TEXT = (PurePath, IPv4Address, IPv6Address)


def without_values(error: Exception) -> tuple[str, Exception | None]:
    """What it says, and what may be shown as its cause.

    pydantic quotes the input, which may be the very thing that the user encrypts.
    """
    if not type(error).__module__.startswith("pydantic") or not hasattr(error, "errors"):
        return str(error), error
    quoting: Any = error
    found: list[dict[str, Any]] = quoting.errors(include_url=False, include_input=False)
    places = [f"{'.'.join(str(step) for step in one['loc']) or '$'}: {one['msg']}" for one in found]
    return "; ".join(places), None


# --- encoding -------------------------------------------------------------------------------------


def encoder_for(kind: type) -> Encode:
    if issubclass(kind, bytes | bytearray):
        return _encode_bytes
    if issubclass(kind, RawValue):
        return _encode_raw
    if _is_pydantic(kind):
        return _encode_pydantic
    if _is_message(kind):
        return _encode_message
    return _encode_json


def _encode_bytes(value: bytes | bytearray) -> Payload:
    return Payload("binary/plain", bytes(value))


def _encode_raw(value: RawValue) -> Payload:
    return value.payload


def _encode_message(value: Any) -> Payload:
    # By name: a static import would make protobuf a dependency of everything that converts.
    json_format = importlib.import_module("google.protobuf.json_format")
    text: str = json_format.MessageToJson(value, indent=None)
    metadata = {_MESSAGE_TYPE: str(value.DESCRIPTOR.full_name).encode()}
    return Payload("json/protobuf", text.encode(), metadata)


def _encode_pydantic(value: Any) -> Payload:
    return Payload("json/plain", _pydantic_json(value))


def _encode_json(value: Any) -> Payload:
    data = _JSON_ENCODE(value)
    # msgspec writes NaN and the infinities as null: nothing else tells us that they were there.
    if b"null" in data:
        _refuse_non_finite(msgspec.to_builtins(value, enc_hook=_pydantic_builtins))
    return Payload("json/plain", data)


def _enc_hook(value: Any) -> Any:
    if isinstance(value, deque):
        return list(value)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    if isinstance(value, _AS_TEXT):
        return str(value)
    if not _is_pydantic(type(value)):
        raise TypeError(f"{name_of(type(value))} has no JSON form; make it a dataclass or a model")
    return msgspec.Raw(_pydantic_json(value))


_JSON_ENCODE = msgspec.json.Encoder(enc_hook=_enc_hook).encode


def _is_pydantic(kind: Any) -> bool:
    """A model or a pydantic dataclass; pydantic need not be imported to see it."""
    return isinstance(kind, type) and "__pydantic_validator__" in dir(kind)


def _pydantic_json(value: Any) -> bytes:
    # By alias, because that is what the validator reads back by default.
    data: bytes = value.__pydantic_serializer__.to_json(value, by_alias=True)
    if b"null" in data and not _writes_strings_for_non_finite(value):
        _refuse_non_finite(_pydantic_builtins(value))
    return _strict(data)


def _writes_strings_for_non_finite(model: Any) -> bool:
    config: Any = getattr(model, "model_config", None) or getattr(model, "__pydantic_config__", {})
    return bool(config.get("ser_json_inf_nan") == "strings")


def _pydantic_builtins(value: Any) -> Any:
    return value.__pydantic_serializer__.to_python(value)


def _refuse_non_finite(builtins: Any) -> None:
    waiting: list[Any] = [builtins]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float):
            if not isfinite(value):
                raise ValueError(f"{value} has no JSON form")
        elif isinstance(value, dict):
            waiting.extend(value.values())  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting.extend(value)  # pyright: ignore[reportUnknownArgumentType]


def _strict(data: bytes) -> bytes:
    """`data`, checked where pydantic is laxer than JSON: it writes and reads NaN and Infinity."""
    if b"NaN" in data or b"Infinity" in data:
        msgspec.json.decode(data)
    return data


# --- decoding -------------------------------------------------------------------------------------


def json_decoder_for(hint: Any) -> Decode:
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return msgspec.json.Decoder().decode
    if get_origin(hint) is Iterable:  # what a function wants that takes anything to walk through
        hint = _list_of(get_args(hint))
    if _mentions_pydantic(hint):
        # One that pydantic cannot read whole, because attrs or msgspec classes are in it as well,
        # is read by msgspec, with the models inside left to their validators.
        with suppress(TypeError):
            return _pydantic_decoder(hint)
    try:
        return msgspec.json.Decoder(hint, dec_hook=_dec_hook).decode
    except TypeError as error:
        if not _pydantic_is_installed():
            raise TypeError(f"{error} (pydantic, when installed, reads more types)") from error
        return _pydantic_decoder_instead(hint, error)


def _dec_hook(kind: Any, value: Any) -> Any:
    if kind is deque or get_origin(kind) is deque:
        return deque(msgspec.convert(value, _list_of(get_args(kind)), dec_hook=_dec_hook))
    if _travels_as_text(kind):
        return kind(msgspec.convert(value, str))
    if not _is_pydantic(kind):
        raise TypeError(f"{name_of(kind)} has no JSON form; make it a dataclass or a model")
    # Through JSON again, because validation of JSON and of Python objects differs in strict models.
    return kind.__pydantic_validator__.validate_json(msgspec.json.encode(value))


def _travels_as_text(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, _AS_TEXT)


def _list_of(args: tuple[Any, ...]) -> Any:
    return list.__class_getitem__(args[0] if args else Any)


def _mentions_pydantic(hint: Any) -> bool:
    return _is_pydantic(hint) or any(_mentions_pydantic(one) for one in get_args(hint))


def _pydantic_is_installed() -> bool:
    try:
        return importlib.util.find_spec("pydantic") is not None
    except ValueError:  # a stand-in without a spec sits in sys.modules
        return False


def _pydantic_decoder(hint: Any) -> Decode:
    pydantic = importlib.import_module("pydantic")
    try:
        validate: Callable[[bytes], Any] = pydantic.TypeAdapter(hint).validate_json
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(error.message) from error
    return lambda data: validate(_strict(data))


def _pydantic_decoder_instead(hint: Any, refusal: TypeError) -> Decode:
    try:
        return _pydantic_decoder(hint)
    except TypeError as error:
        # msgspec says what it minds, pydantic what its own users have to do.
        raise TypeError(f"{refusal}; pydantic: {str(error).splitlines()[0]}") from None


def decode_bytes(data: bytes, hint: Any) -> bytes | bytearray:
    if hint is bytes or hint is Any or hint is object or isinstance(hint, TypeVar):
        return data
    if hint is bytearray:
        return bytearray(data)
    if bytes in get_args(hint):
        return data
    raise TypeError("only bytes can be read from it")


def decode_message(payload: Payload, hint: Any) -> Any:
    if not _is_message(hint):
        raise TypeError("only a protobuf message type as the hint says how to read it")
    found = payload.metadata.get(_MESSAGE_TYPE)
    expected: str = hint.DESCRIPTOR.full_name
    if found is not None and found != expected.encode():
        raise TypeError(f"it holds a {found.decode(errors='replace')}")
    json_format = importlib.import_module("google.protobuf.json_format")
    try:
        return json_format.Parse(payload.data, hint())
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error


def _is_message(kind: Any) -> bool:
    module = sys.modules.get("google.protobuf.message")  # not imported: then this is none
    return module is not None and isinstance(kind, type) and issubclass(kind, module.Message)


def name_of(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)

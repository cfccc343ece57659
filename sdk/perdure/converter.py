"""Values to payloads and back, by type hints.

    None                                  binary/null
    bytes, bytearray                      binary/plain
    protobuf messages                     json/protobuf
    everything else                       json/plain

JSON here is strict: UTF-8, no NaN, no Infinity. What a payload becomes is decided by the hint of
the code that reads it, never by a class that the payload names, and never by pickle.

msgspec does the plain work: builtins, dataclasses, attrs, its own Structs, enums, instants, UUIDs,
TypedDicts, generics; tuples, sets and deques as lists, paths and IP addresses as texts. Types with
pydantic's validator are left to it, and so are hints that msgspec has no decoder for (a union of two
dataclasses, an enum of floats) where pydantic is installed.
Neither pydantic nor protobuf is imported here before a value or a hint of the user's needs it.

A `DataConverter` says the whole way of a value: the payload converter (sync and pure, also inside
workflow code), then the codec, then external storage (both async, at the edges of client and
worker, and on every payload except headers):

    Client.connect(data_converter=DataConverter(
        payload_codec=EncryptionCodec(keys), external_storage=ExternalStorage(store)))
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from math import isfinite
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_origin

import msgspec

from perdure import _failures
from perdure._payload import NO_METADATA, Payload
from perdure.errors import (
    FailureInfo,
    PayloadDecodeError,
    PayloadEncodeError,
    PayloadError,
    UnknownEncodingError,
)

__all__ = [
    "NO_METADATA",
    "CompositePayloadConverter",
    "DataConverter",
    "DefaultFailureConverter",
    "DefaultFailureConverterWithEncodedAttributes",
    "DefaultPayloadConverter",
    "EncodingPayloadConverter",
    "FailureConverter",
    "Payload",
    "PayloadCodec",
    "PayloadConverter",
    "PayloadStorage",
    "default",
]

_NULL = Payload("binary/null", b"")
# What to do about encodings of codecs that are missing on this side.
CODEC_ENCODINGS = {
    "binary/encrypted": ": it is encrypted, and this side has no EncryptionCodec",
    "binary/zstd": ": it is compressed, and this side has no CompressionCodec",
    "binary/external": ": it lies in external storage, and this side has no ExternalStorage",
}
_MESSAGE_TYPE = "messageType"
_AS_TEXT = (PurePath, IPv4Address, IPv6Address)

_Encode = Callable[[Any], Payload]
_Decode = Callable[[bytes], Any]


class PayloadConverter:
    """The converter used unless told otherwise. Subclasses may wrap its four methods.

    Every method raises PayloadEncodeError or PayloadDecodeError and nothing else.
    """

    # Of the data converter that it belongs to; None stands for the rules of `_failures`.
    failure_converter: FailureConverter | None = None

    # For code that comes from temporalio and hands them on: a CompositePayloadConverter falls back
    # on what is here by itself.
    default_encoding_payload_converters: ClassVar[tuple[EncodingPayloadConverter, ...]] = ()

    def __init__(self) -> None:
        self._encoders: dict[type, _Encode] = {}
        self._json_decoders: dict[Any, _Decode] = {}

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return [self.to_payload(value) for value in values]

    def to_payload(self, value: Any) -> Payload:
        if value is None:
            return _NULL
        kind: type = type(value)  # pyright: ignore[reportUnknownVariableType]
        encode = self._encoders.get(kind)
        if encode is None:
            encode = self._encoders[kind] = _encoder_for(kind)
        try:
            return encode(value)
        except Exception as error:  # validators and serializers are the user's code too
            raise PayloadEncodeError(
                f"a value of type {_name(kind)} cannot be encoded: {error}"
            ) from error

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: Sequence[Any] | None = None
    ) -> list[Any]:
        """Values past the last hint are decoded without one."""
        known = len(type_hints) if type_hints else 0
        return [
            self.from_payload(payload, type_hints[index] if type_hints and index < known else Any)
            for index, payload in enumerate(payloads)
        ]

    def from_payload(self, payload: Payload, type_hint: Any = Any) -> Any:
        hint = Any if type_hint is None else type_hint
        try:
            match payload.encoding:
                case "json/plain":
                    return self._json_decoder(hint)(payload.data)
                case "binary/null":
                    return None
                case "binary/plain":
                    return _decode_bytes(payload.data, hint)
                case "json/protobuf":
                    return _decode_message(payload, hint)
                case unknown:
                    raise UnknownEncodingError(unknown, CODEC_ENCODINGS.get(unknown, ""))
        except UnknownEncodingError:
            raise
        except Exception as error:
            told, shown = _without_values(error)
            raise PayloadDecodeError(
                f"a {payload.encoding} payload cannot be decoded as {_name(hint)}: {told}"
            ) from shown

    def _json_decoder(self, hint: Any) -> _Decode:
        try:
            return self._json_decoders[hint]
        except KeyError:
            decode = self._json_decoders[hint] = _json_decoder_for(hint)
            return decode
        except TypeError:  # an unhashable hint: Annotated[int, ["metadata"]]
            return _json_decoder_for(hint)


DefaultPayloadConverter = PayloadConverter


class EncodingPayloadConverter(ABC):
    """One encoding of a CompositePayloadConverter."""

    @property
    @abstractmethod
    def encoding(self) -> str: ...

    @abstractmethod
    def to_payload(self, value: Any) -> Payload | None:
        """None: not a value for this encoding."""

    @abstractmethod
    def from_payload(self, payload: Payload, type_hint: Any = None) -> Any: ...


class CompositePayloadConverter(PayloadConverter):
    """The first of `converters` that takes a value encodes it, and the default the others."""

    def __init__(self, *converters: EncodingPayloadConverter) -> None:
        super().__init__()
        self.converters = {one.encoding: one for one in converters}

    def to_payload(self, value: Any) -> Payload:
        for one in self.converters.values():
            try:
                payload = one.to_payload(value)
            except Exception as error:
                message = f"a value of type {_name(type(value))} cannot be encoded"
                raise PayloadEncodeError(f"{message} as {one.encoding}: {error}") from error
            if payload is not None:
                return payload
        return super().to_payload(value)

    def from_payload(self, payload: Payload, type_hint: Any = Any) -> Any:
        one = self.converters.get(payload.encoding)
        if one is None:
            return super().from_payload(payload, type_hint)
        try:
            return one.from_payload(payload, None if type_hint is Any else type_hint)
        except PayloadError:
            raise
        except Exception as error:
            told, shown = _without_values(error)
            raise PayloadDecodeError(
                f"a {payload.encoding} payload cannot be decoded as {_name(type_hint)}: {told}"
            ) from shown


# --- what happens to payloads outside of workflow code ----------------------------------------------


class PayloadCodec(ABC):
    """Changes payloads on their way: compresses, encrypts. Runs at the edges, never in a workflow.

    What `encode` makes must be recognised by `decode`, which hands on untouched what it does not
    know. For an argument list or a result the number of payloads may change, elsewhere (memo
    values, texts) not. Called again for the same payloads whenever a call is made again.
    """

    @abstractmethod
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]: ...

    @abstractmethod
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises PayloadDecodeError for what it should be able to read and cannot."""


class PayloadStorage(Protocol):
    """Where large payloads lie; `perdure.storage.ExternalStorage` is one."""

    async def store(self, payload: Payload) -> Payload:
        """A reference to it, once it is saved; or the payload itself when it is not large."""
        ...

    async def retrieve(self, payload: Payload) -> Payload:
        """What the reference stands for; a payload that is no reference as it is."""
        ...


class FailureConverter(ABC):
    """Between exceptions and failures, in workflow code too: sync and pure.

    With `encode_common_attributes` message and stack trace travel as a payload, which the codec
    encodes, and clients put them back; the failure itself then says "Encoded failure".
    """

    encode_common_attributes: bool = False

    @abstractmethod
    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter
    ) -> FailureInfo: ...

    @abstractmethod
    def from_failure(
        self, failure: FailureInfo, payload_converter: PayloadConverter
    ) -> BaseException: ...


class DefaultFailureConverter(FailureConverter):
    def __init__(self, *, encode_common_attributes: bool = False) -> None:
        self.encode_common_attributes = encode_common_attributes

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter
    ) -> FailureInfo:
        return _failures.default_to_failure(exception, payload_converter)

    def from_failure(
        self, failure: FailureInfo, payload_converter: PayloadConverter
    ) -> BaseException:
        return _failures.default_to_exception(failure, payload_converter)


class DefaultFailureConverterWithEncodedAttributes(DefaultFailureConverter):
    def __init__(self) -> None:
        super().__init__(encode_common_attributes=True)


@dataclass(frozen=True)
class DataConverter:
    """How a client and its workers turn values into what travels."""

    payload_converter_class: type[PayloadConverter] = PayloadConverter
    payload_codec: PayloadCodec | None = None
    failure_converter_class: type[FailureConverter] = DefaultFailureConverter
    external_storage: PayloadStorage | None = None
    payload_converter: PayloadConverter = field(init=False)
    failure_converter: FailureConverter = field(init=False)

    default: ClassVar[DataConverter]

    def __post_init__(self) -> None:
        converter, failures = self.payload_converter_class(), self.failure_converter_class()
        if type(failures) not in _DEFAULT_FAILURE_CONVERTERS:
            converter.failure_converter = failures
        object.__setattr__(self, "payload_converter", converter)
        object.__setattr__(self, "failure_converter", failures)

    async def encode(self, values: Sequence[Any]) -> list[Payload]:
        """All the way to what travels. For programs that keep payloads somewhere else."""
        payloads = self.payload_converter.to_payloads(values)
        if self.payload_codec is not None:
            payloads = await self.payload_codec.encode(payloads)
        if self.external_storage is not None:
            payloads = [await self.external_storage.store(one) for one in payloads]
        return payloads

    async def decode(
        self, payloads: Sequence[Payload], type_hints: Sequence[Any] | None = None
    ) -> list[Any]:
        """Back again. Raises PayloadDecodeError."""
        found = list(payloads)
        if self.external_storage is not None:
            found = [await self.external_storage.retrieve(one) for one in found]
        if self.payload_codec is not None:
            found = await self.payload_codec.decode(found)
        return self.payload_converter.from_payloads(found, type_hints)


_DEFAULT_FAILURE_CONVERTERS = frozenset(
    (DefaultFailureConverter, DefaultFailureConverterWithEncodedAttributes)
)

DataConverter.default = DataConverter()


def default() -> DataConverter:
    return DataConverter.default


def _without_values(error: Exception) -> tuple[str, Exception | None]:
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


def _encoder_for(kind: type) -> _Encode:
    if issubclass(kind, bytes | bytearray):
        return _encode_bytes
    if _is_pydantic(kind):
        return _encode_pydantic
    if _is_message(kind):
        return _encode_message
    return _encode_json


def _encode_bytes(value: bytes | bytearray) -> Payload:
    return Payload("binary/plain", bytes(value))


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
        raise TypeError(f"{_name(type(value))} has no JSON form; make it a dataclass or a model")
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


def _json_decoder_for(hint: Any) -> _Decode:
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return msgspec.json.Decoder().decode
    if get_origin(hint) is Iterable:  # what a function wants that takes anything to walk through
        hint = list[get_args(hint)[0]]
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


def _dec_hook(kind: type, value: Any) -> Any:
    if kind is deque or get_origin(kind) is deque:
        of = get_args(kind)[0] if get_args(kind) else Any
        return deque(msgspec.convert(value, list[of], dec_hook=_dec_hook))
    if isinstance(kind, type) and issubclass(kind, _AS_TEXT):
        return kind(msgspec.convert(value, str))
    if not _is_pydantic(kind):
        raise TypeError(f"{_name(kind)} has no JSON form; make it a dataclass or a model")
    # Through JSON again, because validation of JSON and of Python objects differs in strict models.
    validator: Any = getattr(kind, "__pydantic_validator__")  # noqa: B009 - typed as Any
    return validator.validate_json(msgspec.json.encode(value))


def _mentions_pydantic(hint: Any) -> bool:
    return _is_pydantic(hint) or any(_mentions_pydantic(one) for one in get_args(hint))


def _pydantic_is_installed() -> bool:
    try:
        return importlib.util.find_spec("pydantic") is not None
    except ValueError:  # a stand-in without a spec sits in sys.modules
        return False


def _pydantic_decoder(hint: Any) -> _Decode:
    pydantic = importlib.import_module("pydantic")
    try:
        validate: Callable[[bytes], Any] = pydantic.TypeAdapter(hint).validate_json
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(error.message) from error
    return lambda data: validate(_strict(data))


def _pydantic_decoder_instead(hint: Any, refusal: TypeError) -> _Decode:
    try:
        return _pydantic_decoder(hint)
    except TypeError as error:
        # msgspec says what it minds, pydantic what its own users have to do.
        raise TypeError(f"{refusal}; pydantic: {str(error).splitlines()[0]}") from None


def _decode_bytes(data: bytes, hint: Any) -> bytes | bytearray:
    if hint is bytes or hint is Any or hint is object or isinstance(hint, TypeVar):
        return data
    if hint is bytearray:
        return bytearray(data)
    if bytes in get_args(hint):
        return data
    raise TypeError("only bytes can be read from it")


def _decode_message(payload: Payload, hint: Any) -> Any:
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


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)

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

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from perdure import _failures
from perdure._encodings import (
    Decode,
    Encode,
    decode_bytes,
    decode_message,
    encoder_for,
    json_decoder_for,
    name_of,
    without_values,
)
from perdure._failure_info import FailureInfo
from perdure._payload import NO_METADATA, Payload
from perdure.common import RawValue
from perdure.errors import (
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


class PayloadConverter:
    """The converter used unless told otherwise. Subclasses may wrap its four methods.

    Every method raises PayloadEncodeError or PayloadDecodeError and nothing else.
    """

    # Of the data converter that it belongs to; None stands for the rules of `_failures`.
    failure_converter: FailureConverter | None = None

    # For code that comes from temporalio and hands them on: a CompositePayloadConverter falls back
    # on what is here by itself.
    default_encoding_payload_converters: ClassVar[tuple[EncodingPayloadConverter, ...]] = ()

    default: ClassVar[PayloadConverter]

    def __init__(self) -> None:
        self._encoders: dict[type, Encode] = {}
        self._json_decoders: dict[Any, Decode] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For activities in other processes, which remember their own."""
        return {**self.__dict__, "_encoders": {}, "_json_decoders": {}}

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return [self.to_payload(value) for value in values]

    def to_payload(self, value: Any) -> Payload:
        if value is None:
            return _NULL
        kind: type = type(value)  # pyright: ignore[reportUnknownVariableType]
        encode = self._encoders.get(kind)
        if encode is None:
            encode = self._encoders[kind] = encoder_for(kind)
        try:
            return encode(value)
        except Exception as error:  # validators and serializers are the user's code too
            raise PayloadEncodeError(
                f"a value of type {name_of(kind)} cannot be encoded: {error}"
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
        if hint is RawValue:
            return RawValue(payload)
        try:
            match payload.encoding:
                case "json/plain":
                    return self._json_decoder(hint)(payload.data)
                case "binary/null":
                    return None
                case "binary/plain":
                    return decode_bytes(payload.data, hint)
                case "json/protobuf":
                    return decode_message(payload, hint)
                case unknown:
                    raise UnknownEncodingError(unknown, CODEC_ENCODINGS.get(unknown, ""))
        except UnknownEncodingError:
            raise
        except Exception as error:
            told, shown = without_values(error)
            raise PayloadDecodeError(
                f"a {payload.encoding} payload cannot be decoded as {name_of(hint)}: {told}"
            ) from shown

    def _json_decoder(self, hint: Any) -> Decode:
        try:
            return self._json_decoders[hint]
        except KeyError:
            decode = self._json_decoders[hint] = json_decoder_for(hint)
            return decode
        except TypeError:  # an unhashable hint: Annotated[int, ["metadata"]]
            return json_decoder_for(hint)


PayloadConverter.default = PayloadConverter()
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
        if type(value) is RawValue:
            return value.payload
        for one in self.converters.values():
            try:
                payload = one.to_payload(value)
            except Exception as error:
                message = f"a value of type {name_of(type(value))} cannot be encoded"
                raise PayloadEncodeError(f"{message} as {one.encoding}: {error}") from error
            if payload is not None:
                return payload
        return super().to_payload(value)

    def from_payload(self, payload: Payload, type_hint: Any = Any) -> Any:
        one = self.converters.get(payload.encoding)
        if one is None or type_hint is RawValue:
            return super().from_payload(payload, type_hint)
        try:
            return one.from_payload(payload, None if type_hint is Any else type_hint)
        except PayloadError:
            raise
        except Exception as error:
            told, shown = without_values(error)
            raise PayloadDecodeError(
                f"a {payload.encoding} payload cannot be decoded as {name_of(type_hint)}: {told}"
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

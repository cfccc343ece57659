"""Search attributes: what lists find workflows by. Not encrypted: a filter must read them.

    REGION = SearchAttributeKey.for_keyword("Region")
    await client.start_workflow(…, search_attributes=TypedSearchAttributes(
        [SearchAttributePair(REGION, "eu")]))
    workflow.upsert_search_attributes([REGION.value_set("us")])

Nothing is registered: the type travels with the value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar, overload

T = TypeVar("T")
D = TypeVar("D")


class SearchAttributeIndexedValueType(IntEnum):
    TEXT = 1
    KEYWORD = 2
    INT = 3
    DOUBLE = 4
    BOOL = 5
    DATETIME = 6
    KEYWORD_LIST = 7


_PYTHON_TYPES: dict[SearchAttributeIndexedValueType, type] = {
    SearchAttributeIndexedValueType.TEXT: str,
    SearchAttributeIndexedValueType.KEYWORD: str,
    SearchAttributeIndexedValueType.INT: int,
    SearchAttributeIndexedValueType.DOUBLE: float,
    SearchAttributeIndexedValueType.BOOL: bool,
    SearchAttributeIndexedValueType.DATETIME: datetime,
    SearchAttributeIndexedValueType.KEYWORD_LIST: list,
}


@dataclass(frozen=True, slots=True)
class SearchAttributeKey(Generic[T]):
    """A name with the type of its values. Made by the `for_…` methods."""

    name: str
    indexed_value_type: SearchAttributeIndexedValueType

    @staticmethod
    def for_text(name: str) -> SearchAttributeKey[str]:
        """A filter's `=` finds it by its words."""
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.TEXT)

    @staticmethod
    def for_keyword(name: str) -> SearchAttributeKey[str]:
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.KEYWORD)

    @staticmethod
    def for_int(name: str) -> SearchAttributeKey[int]:
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.INT)

    @staticmethod
    def for_float(name: str) -> SearchAttributeKey[float]:
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.DOUBLE)

    @staticmethod
    def for_bool(name: str) -> SearchAttributeKey[bool]:
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.BOOL)

    @staticmethod
    def for_datetime(name: str) -> SearchAttributeKey[datetime]:
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.DATETIME)

    @staticmethod
    def for_keyword_list(name: str) -> SearchAttributeKey[Sequence[str]]:
        """A filter's `=` finds it by any of its values."""
        return SearchAttributeKey(name, SearchAttributeIndexedValueType.KEYWORD_LIST)

    @property
    def value_type(self) -> type:
        return _PYTHON_TYPES[self.indexed_value_type]

    def value_set(self, value: T) -> SearchAttributeUpdate[T]:
        """Raises TypeError for a value of another type."""
        return SearchAttributeUpdate(self, _checked(self, value))

    def value_unset(self) -> SearchAttributeUpdate[T]:
        return SearchAttributeUpdate(self, None)


@dataclass(frozen=True, slots=True)
class SearchAttributePair(Generic[T]):
    """Raises TypeError for a value of another type than the key's."""

    key: SearchAttributeKey[T]
    value: T

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _checked(self.key, self.value))


@dataclass(frozen=True, slots=True)
class SearchAttributeUpdate(Generic[T]):
    """What `upsert_search_attributes` takes. `value` None takes the attribute away."""

    key: SearchAttributeKey[T]
    value: T | None


@dataclass(frozen=True, slots=True)
class TypedSearchAttributes(Collection["SearchAttributePair[Any]"]):
    """The attributes of one workflow, one of a name. Raises ValueError for a name given twice."""

    empty: ClassVar[TypedSearchAttributes]

    search_attributes: Sequence[SearchAttributePair[Any]] = ()

    def __post_init__(self) -> None:
        pairs = tuple(sorted(self.search_attributes, key=lambda pair: pair.key.name))
        names = {pair.key.name for pair in pairs}
        if len(names) != len(pairs):
            raise ValueError("a search attribute is given twice")
        object.__setattr__(self, "search_attributes", pairs)

    def __len__(self) -> int:
        return len(self.search_attributes)

    def __iter__(self) -> Iterator[SearchAttributePair[Any]]:
        return iter(self.search_attributes)

    def __contains__(self, key: object) -> bool:
        """Is there a value of this key, with its type?"""
        return any(pair.key == key for pair in self.search_attributes)

    def __getitem__(self, key: SearchAttributeKey[T]) -> T:
        for pair in self.search_attributes:
            if pair.key == key:
                value: T = pair.value
                return value
        raise KeyError(key)

    @overload
    def get(self, key: SearchAttributeKey[T]) -> T | None: ...

    @overload
    def get(self, key: SearchAttributeKey[T], default: D) -> T | D: ...

    def get(self, key: SearchAttributeKey[Any], default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def updated(self, *pairs: SearchAttributePair[Any]) -> TypedSearchAttributes:
        """These and the pairs; a pair's name takes the place of one that is there."""
        return self.changed([SearchAttributeUpdate(pair.key, pair.value) for pair in pairs])

    def changed(self, updates: Sequence[SearchAttributeUpdate[Any]]) -> TypedSearchAttributes:
        """What an upsert makes of them: the last update of a name wins."""
        by_name = {pair.key.name: pair for pair in self.search_attributes}
        for update in updates:
            if update.value is None:
                by_name.pop(update.key.name, None)
            else:
                by_name[update.key.name] = SearchAttributePair(update.key, update.value)
        return TypedSearchAttributes(tuple(by_name.values()))

    def changes_to(self, wanted: TypedSearchAttributes) -> list[SearchAttributeUpdate[Any]]:
        """The upserts that make `wanted` of these."""
        names = {pair.key.name for pair in wanted}
        gone = [pair.key.value_unset() for pair in self if pair.key.name not in names]
        new = [pair for pair in wanted if pair not in self.search_attributes]
        return [*gone, *(pair.key.value_set(pair.value) for pair in new)]


def _checked(key: SearchAttributeKey[Any], value: Any) -> Any:
    """The value as it is kept. Raises TypeError for one of another type."""
    kept = _KEPT[key.indexed_value_type](value)
    if kept is None:
        kind = key.indexed_value_type.name
        raise TypeError(f"search attribute {key.name!r} is a {kind}, not a {type(value).__name__}")
    return kept


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _int(value: Any) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _bool(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _instant(value: Any) -> Any:
    """A naive one is taken as UTC."""
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _texts(value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return None
    texts: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]  # looked at next
    return texts if all(isinstance(one, str) for one in texts) else None


_KEPT: dict[SearchAttributeIndexedValueType, Callable[[Any], Any]] = {
    SearchAttributeIndexedValueType.TEXT: _text,
    SearchAttributeIndexedValueType.KEYWORD: _text,
    SearchAttributeIndexedValueType.INT: _int,
    SearchAttributeIndexedValueType.DOUBLE: _float,
    SearchAttributeIndexedValueType.BOOL: _bool,
    SearchAttributeIndexedValueType.DATETIME: _instant,
    SearchAttributeIndexedValueType.KEYWORD_LIST: _texts,
}

TypedSearchAttributes.empty = TypedSearchAttributes()

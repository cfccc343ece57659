"""What every request must satisfy, whatever the state: the door at which bad input stops.

Each function returns quietly or raises `Rejected` INVALID_ARGUMENT with the path of the field. A
message never repeats the value: it may be huge, or made to deceive whoever reads the log.
"""

from __future__ import annotations

from functools import lru_cache
from unicodedata import is_normalized

from perdure_engine.core import limits
from perdure_engine.core.decide.signal_workflow import SAGA_SIGNAL
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.intents import ResetType
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import (
    BUILT_IN_NAMES,
    VERSIONING_NAMES,
    Attributes,
    AttributeType,
    SearchAttribute,
    total_size,
)
from perdure_engine.core.search_attributes import size as attribute_size

RESERVED_PREFIX = "__"
# Reserved names that SDKs listen to: an operator's word to a saga whose compensation has failed.
OWN_SIGNALS = frozenset({SAGA_SIGNAL})
WORKER_ID_BYTES = 16
PRIORITY_MAX = 5
NON_RETRYABLE_TYPES_MAX = 100  # a list longer than this is a mistake, and it travels with each task
DATETIME_US_MIN = -62_135_596_800_000_000  # what both databases and Python's datetime can hold
DATETIME_US_MAX = 253_402_300_799_999_999
CHECKED_NAMES_MAX = 4_096  # types, queues, signal names: the same few again and again


def workflow_id(field: str, text: str) -> None:
    fault = _fault(text, limits.WORKFLOW_ID_BYTES_MAX)
    if fault:
        raise invalid(field, fault)


def name(field: str, text: str) -> None:
    """Of a queue, signal, query, activity id or timer id."""
    fault = _known_fault(text, limits.NAME_BYTES_MAX)
    if fault:
        raise invalid(field, fault)


def key(field: str, text: str) -> None:
    """Of a job or a batch: as a name, but hardly ever seen before."""
    fault = _fault(text, limits.NAME_BYTES_MAX)
    if fault:
        raise invalid(field, fault)


def signal_name(field: str, text: str) -> None:
    if text not in OWN_SIGNALS:
        name(field, text)


def type_name(field: str, text: str) -> None:
    """Of a workflow or activity type. No path separators: a type is never a file."""
    name(field, text)
    if "/" in text or "\\" in text:
        raise invalid(field, "holds a path separator")


def namespace_name(field: str, text: str) -> None:
    fault = _known_fault(text, limits.NAMESPACE_BYTES_MAX)
    if fault:
        raise invalid(field, fault)


def label(field: str, text: str, bytes_max: int = limits.IDENTITY_BYTES_MAX) -> None:
    """Something people read in lists: an identity, a build id. May be empty."""
    if text and (fault := _known_fault(text, bytes_max, reserved=True)):
        raise invalid(field, fault)


def build_of_reset(reset_type: ResetType | None, build_id: str) -> None:
    """`build_id` is for a reset by build, which needs it."""
    label("build_id", build_id)
    by_build = reset_type is ResetType.BUILD_ID
    if by_build and not build_id:
        raise invalid("build_id", "is required with this type of reset")
    if build_id and not by_build:
        raise invalid("build_id", "is given, and the reset is not by build")


def prose(field: str, text: str, bytes_max: int = limits.REASON_BYTES_MAX) -> None:
    """Words of a person; may be empty and may have lines."""
    if len(text) > bytes_max or (not text.isascii() and len(_encoded(field, text)) > bytes_max):
        raise invalid(field, f"is longer than {bytes_max} bytes")
    if "\0" in text:
        raise invalid(field, "holds a NUL character")


def id_prefix(field: str, text: str) -> None:
    """The beginning of a workflow id; may be empty or reserved, since nothing is made of it."""
    if text and (fault := _fault(text, limits.WORKFLOW_ID_BYTES_MAX, reserved=True)):
        raise invalid(field, fault)


def size(field: str, data: bytes, bytes_max: int = limits.PAYLOAD_BYTES_MAX) -> None:
    if len(data) > bytes_max:
        raise invalid(field, f"is {len(data)} bytes, the limit is {bytes_max}")


def duration(field: str, value_ms: int, ms_max: int = limits.DURATION_MS_MAX) -> None:
    if not 0 <= value_ms <= ms_max:
        raise invalid(field, f"must lie between 0 and {ms_max} ms")


def pending_activity(workflow: str, activity_id: str, activity_type: str) -> None:
    """Which pending activities of a run are meant: one by its id, or all of a type."""
    workflow_id("workflow_id", workflow)
    if activity_id and activity_type:
        raise invalid("activity_type", "cannot be given with activity_id")
    if activity_type:
        type_name("activity_type", activity_type)
    else:
        name("activity_id", activity_id)


def instant(field: str, value_us: int) -> None:
    """What no database can hold must not look like one that does not answer."""
    if value_us < 0:
        raise invalid(field, "must not be negative")
    if value_us > DATETIME_US_MAX:
        raise invalid(field, "must lie before the year 10000")


def version(field: str, deployment_name: str, build_id: str) -> None:
    """Of a worker or a run: both names. `field`: what stands before theirs."""
    name(f"{field}deployment_name", deployment_name)
    if "." in deployment_name:
        raise invalid(f"{field}deployment_name", "holds a dot, which parts it from the build id")
    name(f"{field}build_id", build_id)


def not_negative(field: str, value: int) -> None:
    if value < 0:
        raise invalid(field, "must not be negative")


def priority(field: str, value: int) -> None:
    if not 1 <= value <= PRIORITY_MAX:
        raise invalid(field, f"must lie between 1 and {PRIORITY_MAX}")


def retry_policy(field: str, policy: RetryPolicy | None) -> None:
    """`maximum_interval_ms` 0 means unset here, as in core."""
    if policy is None:
        return
    first, longest = policy.initial_interval_ms, policy.maximum_interval_ms
    if not 1 <= first <= limits.DURATION_MS_MAX:
        raise invalid(
            f"{field}.initial_interval_ms", f"must lie between 1 and {limits.DURATION_MS_MAX} ms"
        )
    # Written so that NaN fails too.
    if not 1.0 <= policy.backoff_coefficient < float("inf"):
        raise invalid(f"{field}.backoff_coefficient", "must be a number of at least 1")
    if longest and not first <= longest <= limits.DURATION_MS_MAX:
        raise invalid(
            f"{field}.maximum_interval_ms", "must lie between the initial interval and ten years"
        )
    if policy.maximum_attempts < 0:
        raise invalid(f"{field}.maximum_attempts", "must not be negative")
    types = policy.non_retryable_error_types
    if types:
        if len(types) > NON_RETRYABLE_TYPES_MAX:
            raise invalid(
                f"{field}.non_retryable_error_types", f"holds over {NON_RETRYABLE_TYPES_MAX} types"
            )
        for index, error_type in enumerate(types):
            name(f"{field}.non_retryable_error_types[{index}]", error_type)


def search_attributes(field: str, attributes: Attributes, *, may_unset: bool = False) -> None:
    """`may_unset`: one without a value takes the name away."""
    names: set[str] = set()
    for index, attribute in enumerate(attributes):
        at = f"{field}[{index}]"
        name(f"{at}.name", attribute.name)
        if "`" in attribute.name:
            raise invalid(f"{at}.name", "holds a backquote, which no filter could quote")
        if attribute.name in BUILT_IN_NAMES or attribute.name in VERSIONING_NAMES:
            raise invalid(f"{at}.name", "is what filters call a column of every run")
        if attribute.name in names:
            raise invalid(f"{at}.name", "is given twice")
        names.add(attribute.name)
        if attribute.value is None and not may_unset:
            raise invalid(f"{at}.value", "is not set")
        _attribute_value(f"{at}.value", attribute)
    if total_size(attributes) > limits.SEARCH_ATTRIBUTES_BYTES_MAX:
        raise invalid(field, f"hold more than {limits.SEARCH_ATTRIBUTES_BYTES_MAX} bytes together")


def _attribute_value(field: str, attribute: SearchAttribute) -> None:
    value = attribute.value
    # Written so that NaN fails too: JSON has neither.
    if isinstance(value, float) and not float("-inf") < value < float("inf"):
        raise invalid(field, "must be a finite number")
    in_range = not isinstance(value, int) or DATETIME_US_MIN <= value <= DATETIME_US_MAX
    if attribute.type is AttributeType.DATETIME and not in_range:
        raise invalid(field, "must lie in the years 1 to 9999")
    if attribute_size(attribute) > limits.SEARCH_ATTRIBUTE_BYTES_MAX:
        raise invalid(field, f"is longer than {limits.SEARCH_ATTRIBUTE_BYTES_MAX} bytes")
    texts = value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()
    if any("\0" in text for text in texts):
        raise invalid(field, "holds a NUL character")


def page_size(field: str, asked: int, default: int = limits.PAGE_SIZE_DEFAULT) -> int:
    """The size to use: the default for 0, never more than the most."""
    if asked < 0:
        raise invalid(field, "must not be negative")
    return min(asked or default, limits.PAGE_SIZE_MAX)


def wait_s(field: str, asked_ms: int) -> float:
    """How long a call may wait: the most for 0, never more than that."""
    if asked_ms < 0:
        raise invalid(field, "must not be negative")
    return min(asked_ms or limits.POLL_TIMEOUT_MS_MAX, limits.POLL_TIMEOUT_MS_MAX) / 1000


def worker_id(field: str, raw: bytes) -> None:
    if len(raw) != WORKER_ID_BYTES:
        raise invalid(field, f"must be {WORKER_ID_BYTES} bytes")


def uuid_bytes(field: str, text: str) -> bytes:
    """The 16 bytes of a UUID in canonical text form."""
    try:
        raw = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        raw = b""
    # fromhex skips blanks, and replace takes any number of dashes: both lengths together rule those
    # out.
    if len(raw) != 16 or len(text) != 36 or text[8] + text[13] + text[18] + text[23] != "----":
        raise invalid(field, "must be a UUID in canonical text form" if text else "is required")
    return raw


def uuid_bytes_or_none(field: str, text: str) -> bytes:
    """b"" for an empty text."""
    return uuid_bytes(field, text) if text else b""


def under(parent: str, rejected: Rejected) -> Rejected:
    """The same refusal, its field seen from the message that contains the one it was found in."""
    if not rejected.field:
        return rejected
    return Rejected(
        rejected.code,
        rejected.reason,
        f"{parent}.{rejected.message}",
        field=f"{parent}.{rejected.field}",
        metadata=rejected.metadata,
        retry_after_ms=rejected.retry_after_ms,
    )


def _encoded(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise invalid(field, "holds a lone surrogate") from None


def _known_fault(text: str, bytes_max: int, *, reserved: bool = False) -> str:
    # What is too long must not become a key of the cache.
    if len(text) > bytes_max:
        return f"is longer than {bytes_max} bytes"
    return _cached_fault(text, bytes_max, reserved)


def _fault(text: str, bytes_max: int, reserved: bool = False) -> str:
    """Why the text cannot be an id, or "" when it can.

    `reserved`: the engine's own prefix may stand there.
    """
    if not text:
        return "is empty"
    if len(text) > bytes_max:
        return f"is longer than {bytes_max} bytes"
    # Not printable: control characters, bidirectional overrides, unassigned and private code
    # points, and every blank but the ordinary space, so that two ids that look the same are the
    # same.
    if not text.isprintable():
        return "holds a character that is not printable"
    if not text.isascii():
        if len(text.encode()) > bytes_max:
            return f"is longer than {bytes_max} bytes"
        if not is_normalized("NFC", text):
            return "is not in Unicode's normal form C"
    if text.isspace():
        return "holds only spaces"
    if not reserved and text.startswith(RESERVED_PREFIX):
        return f"begins with {RESERVED_PREFIX}, which is reserved"
    return ""


_cached_fault = lru_cache(maxsize=CHECKED_NAMES_MAX)(_fault)

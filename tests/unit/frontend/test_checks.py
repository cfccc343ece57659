"""What the door lets in. The rows B… are those of reliability §4."""

from collections.abc import Callable

import pytest

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.frontend import checks


def refused(check: Callable[[], object]) -> Rejected:
    with pytest.raises(Rejected) as caught:
        check()
    assert caught.value.code == Code.INVALID_ARGUMENT
    return caught.value


@pytest.mark.parametrize(
    "text",
    ["order-1", "a", "with space", "日本語", "é", "_x", "a__b", "x" * 1_000, "Ω" * 500, "💶"],
)
def test_ids_may_be_any_printable_text(text: str) -> None:
    checks.workflow_id("workflow_id", text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" ", "only spaces"),
        ("x" * 1_001, "longer"),
        ("Ω" * 501, "longer"),
        ("a\0b", "not printable"),
        ("a\nb", "not printable"),
        ("a\x7fb", "not printable"),
        ("a\u202eb", "not printable"),
        ("a\u2066b", "not printable"),
        ("a\u200bb", "not printable"),
        ("a\u00a0b", "not printable"),
        ("a\ud800b", "not printable"),
        ("e\u0301", "normal form"),
        ("__system", "reserved"),
    ],
)
def test_b3_b4_b5_ids_that_are_refused(text: str, why: str) -> None:
    rejected = refused(lambda: checks.workflow_id("workflow_id", text))

    assert rejected.field == "workflow_id"
    assert why in rejected.message
    assert text.strip() == "" or text not in rejected.message


@pytest.mark.parametrize("text", ["../../etc/passwd", "a/b", "a\\b", "x" * (1 << 20), "", "__x"])
def test_b48_type_names_that_are_refused(text: str) -> None:
    assert refused(lambda: checks.type_name("workflow_type", text)).field == "workflow_type"


def test_a_huge_name_does_not_enter_the_cache() -> None:
    before = checks._cached_fault.cache_info().currsize

    refused(lambda: checks.name("task_queue", "q" * 10_000_000))

    assert checks._cached_fault.cache_info().currsize == before


@pytest.mark.parametrize("value", [-1, limits.DURATION_MS_MAX + 1])
def test_b25_durations_that_are_refused(value: int) -> None:
    assert refused(lambda: checks.duration("run_timeout_ms", value)).field == "run_timeout_ms"


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (RetryPolicy(initial_interval_ms=0), "initial_interval_ms"),
        (RetryPolicy(initial_interval_ms=-5), "initial_interval_ms"),
        (RetryPolicy(initial_interval_ms=limits.DURATION_MS_MAX + 1), "initial_interval_ms"),
        (RetryPolicy(backoff_coefficient=0.5), "backoff_coefficient"),
        (RetryPolicy(backoff_coefficient=float("nan")), "backoff_coefficient"),
        (RetryPolicy(backoff_coefficient=float("inf")), "backoff_coefficient"),
        (RetryPolicy(initial_interval_ms=10, maximum_interval_ms=9), "maximum_interval_ms"),
        (RetryPolicy(maximum_interval_ms=-1), "maximum_interval_ms"),
        (RetryPolicy(maximum_attempts=-1), "maximum_attempts"),
        (RetryPolicy(non_retryable_error_types=("a", "")), "non_retryable_error_types[1]"),
        (RetryPolicy(non_retryable_error_types=("a",) * 101), "non_retryable_error_types"),
    ],
)
def test_b27_retry_policies_that_are_refused(policy: RetryPolicy, field: str) -> None:
    rejected = refused(lambda: checks.retry_policy("retry_policy", policy))

    assert rejected.field == f"retry_policy.{field}"


@pytest.mark.parametrize("policy", [None, RetryPolicy(), RetryPolicy(1, 1.0, 1, 1, ("E",))])
def test_retry_policies_that_are_fine(policy: RetryPolicy | None) -> None:
    checks.retry_policy("retry_policy", policy)


def test_words_of_people_may_have_lines_but_no_nul() -> None:
    checks.prose("reason", "first line\nsecond line")
    checks.prose("reason", "")

    assert refused(lambda: checks.prose("reason", "a\0")).field == "reason"
    refused(lambda: checks.prose("reason", "x" * (limits.REASON_BYTES_MAX + 1)))
    refused(lambda: checks.prose("reason", "Ω" * (limits.REASON_BYTES_MAX // 2 + 1)))


def test_labels_may_be_empty_and_reserved() -> None:
    checks.label("identity", "")
    checks.label("identity", "__internal")
    refused(lambda: checks.label("identity", "x" * 501))
    refused(lambda: checks.label("identity", "a\x1b[31m"))


def test_b7_sizes() -> None:
    checks.size("input", bytes(limits.PAYLOAD_BYTES_MAX))

    assert refused(lambda: checks.size("input", bytes(limits.PAYLOAD_BYTES_MAX + 1))).field


def test_uuids_in_canonical_form() -> None:
    text = "123e4567-e89b-12d3-a456-426614174000"

    assert checks.uuid_bytes("request_id", text).hex() == text.replace("-", "")
    assert checks.uuid_bytes("request_id", text.upper()).hex() == text.replace("-", "")
    assert checks.uuid_bytes_or_none("run_id", "") == b""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "123e4567e89b12d3a456426614174000",
        "{123e4567-e89b-12d3-a456-426614174000}",
        "123e4567-e89b-12d3-a456-42661417400g",
        "123e4567-e89b-12d3-a456-4266141740  ",
        "-123e4567e89b-12d3-a456-426614174000",
        "123e4567-e89b-12d3-a456-4266141740001",
    ],
)
def test_uuids_that_are_refused(text: str) -> None:
    assert refused(lambda: checks.uuid_bytes("request_id", text)).field == "request_id"


def test_page_sizes_and_waits_are_clamped() -> None:
    assert checks.page_size("page_size", 0) == limits.PAGE_SIZE_DEFAULT
    assert checks.page_size("page_size", 10**9) == limits.PAGE_SIZE_MAX
    assert checks.wait_s("timeout_ms", 0) == 60.0
    assert checks.wait_s("timeout_ms", 1_500) == 1.5
    assert checks.wait_s("timeout_ms", 10**12) == 60.0
    refused(lambda: checks.page_size("page_size", -1))
    refused(lambda: checks.wait_s("timeout_ms", -1))


def test_a_refusal_is_seen_from_the_message_around_it() -> None:
    seen = checks.under("start", invalid("workflow_id", "is empty"))

    assert (seen.field, seen.message) == ("start.workflow_id", "start.workflow_id: is empty")

"""Ids and the numbers derived from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import NewType

ShardId = NewType("ShardId", int)

SEQUENCE_BITS = 24
"""Task, timer and start numbers are `range_id << 24 | n`: never reused, whoever owns the shard."""
SEQUENCE_MAX = (1 << SEQUENCE_BITS) - 1

QUEUES_KEPT_MAX = 4_096  # whose numbers are not computed for each task


def shard_of(namespace_id: bytes, workflow_id: str, number_of_shards: int) -> int:
    """The shard of a workflow id. BLAKE2, never Python's hash: the answer is for ever.

    Shard numbers start at 1.
    """
    digest = hashlib.blake2b(workflow_id.encode(), digest_size=8, key=namespace_id).digest()
    return int.from_bytes(digest, "big") % number_of_shards + 1


@lru_cache(maxsize=QUEUES_KEPT_MAX)
def queue_number(namespace_id: bytes, kind: int, queue: str) -> int:
    """A queue's number in the key of `tasks`: 31 bits of a hash (adr/0006 says why no table)."""
    digest = hashlib.blake2b(
        queue.encode(), digest_size=4, key=namespace_id, salt=bytes((kind,))
    ).digest()
    return int.from_bytes(digest, "big") >> 1


def run_id_of(namespace_id: bytes, workflow_id: str, request_id: bytes) -> bytes:
    """The run id of a start whose caller did not choose one: a repeat of the request names the same run.

    A UUID of version 8 (RFC 9562: the bits are ours).
    """
    digest = hashlib.blake2b(
        workflow_id.encode(), digest_size=16, key=namespace_id, salt=request_id[:16]
    )
    return _version_8(digest.digest())


def reset_run_id(namespace_id: bytes, workflow_id: str, request_id: bytes) -> bytes:
    """The id of the run that a reset begins: a repeat of the request names the same run."""
    digest = hashlib.blake2b(
        workflow_id.encode(),
        digest_size=16,
        key=namespace_id,
        salt=request_id[:16],
        person=b"perdure reset",
    )
    return _version_8(digest.digest())


def _version_8(digest: bytes) -> bytes:
    raw = bytearray(digest)
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def batch_request_id(namespace_id: bytes, job_id: str, run_id: bytes) -> bytes:
    """The request id of a batch operation's act on one run: a repeat is the same request."""
    digest = hashlib.blake2b(
        job_id.encode() + run_id, digest_size=16, key=namespace_id, person=b"perdure batch op"
    )
    return _version_8(digest.digest())


def recurring_job_id(namespace_id: bytes, key: str) -> bytes:
    """The id of a recurring job, which is a schedule: a repeat names the same. No shard has such a number as its first
    32 bits would be, so that it is never taken for the id of a run."""
    digest = hashlib.blake2b(
        key.encode(), digest_size=16, key=namespace_id, person=b"perdure recurs"
    ).digest()
    return _version_8(bytes((digest[0] | 0x80,)) + digest[1:])


def request_id_of(namespace_id: bytes, key: str) -> bytes:
    """The request id of a call that its caller names by a key: a repeat is the same request."""
    digest = hashlib.blake2b(
        key.encode(), digest_size=16, key=namespace_id, person=b"perdure request"
    )
    return _version_8(digest.digest())


def next_run_id(run_id: bytes, number: int) -> bytes:
    """The id of the run that follows `run_id`. `number` is a fresh one of the shard's: no two are the same."""
    digest = hashlib.blake2b(
        number.to_bytes(8, "big"), digest_size=16, key=run_id, person=b"perdure next run"
    )
    return _version_8(digest.digest())


def child_run_id(run_id: bytes, initiated_event_id: int) -> bytes:
    """The id of the first run of the child that `run_id` started by that event: a repeat names the same run."""
    return _between(run_id, initiated_event_id, b"perdure child")


def message_request_id(run_id: bytes, key: int) -> bytes:
    """The request id of what `run_id` asks of another run by the message of that key."""
    return _between(run_id, key, b"perdure message")


def _between(run_id: bytes, number: int, person: bytes) -> bytes:
    digest = hashlib.blake2b(
        number.to_bytes(8, "big", signed=True), digest_size=16, key=run_id, person=person
    )
    return _version_8(digest.digest())


def job_id_of(
    shard_id: int, namespace_id: bytes, idempotency_key: str, request_id: bytes, index: int
) -> bytes:
    """The id of a job, which carries its shard. By its idempotency key if it has one, else by its place in the call,
    below 65,536: a repeat names the same job. A UUID of version 8; its first 32 bits are the shard's number.

    The jobs of a call differ in the last bytes only: rows whose keys follow each other are written for a quarter
    less than rows all over the index.
    """
    if not idempotency_key:
        return _jobs_of_call(shard_id, namespace_id, request_id) + index.to_bytes(2, "big")
    digest = hashlib.blake2b(
        idempotency_key.encode(), digest_size=12, key=namespace_id, person=b"perdure job"
    ).digest()
    return _version_8(shard_id.to_bytes(4, "big") + digest)


def job_ids_of(namespace_id: bytes, request_id: bytes) -> Callable[[int, int], bytes]:
    """`job_id_of` for jobs of one call that have no idempotency key, by shard and index: what is the same for all of
    them in a shard is hashed once."""
    begins: dict[int, bytes] = {}

    def job_id(shard_id: int, index: int) -> bytes:
        begin = begins.get(shard_id)
        if begin is None:
            begin = begins[shard_id] = _jobs_of_call(shard_id, namespace_id, request_id)
        return begin + index.to_bytes(2, "big")

    return job_id


def _jobs_of_call(shard_id: int, namespace_id: bytes, request_id: bytes) -> bytes:
    """What the ids of a call's jobs in one shard begin with."""
    digest = hashlib.blake2b(
        request_id, digest_size=10, key=namespace_id, person=b"perdure job call"
    ).digest()
    return _version_8(shard_id.to_bytes(4, "big") + digest)


def shard_of_job(job_id: bytes) -> int:
    """Of an id as `job_id_of` makes them; what comes from outside may name a shard that there is not."""
    return int.from_bytes(job_id[:4], "big")


def schedule_uid(namespace_id: bytes, schedule_id: str) -> bytes:
    """What stands for a schedule where a run's id would: in rows of `timers` and of `tasks`."""
    digest = hashlib.blake2b(
        schedule_id.encode(), digest_size=16, key=namespace_id, person=b"perdure schedule"
    )
    return _version_8(digest.digest())


def slot_run_id(uid: bytes, nominal_us: int, origin: int) -> bytes:
    """The run id of what a schedule's slot starts: a second delivery finds the first. `uid`: see `schedule_uid`."""
    return _between(uid, slot_number(nominal_us, origin), b"perdure slot")


def slot_number(nominal_us: int, origin: int) -> int:
    """A slot in one number, which is above 0."""
    return nominal_us * 4 + origin


def slot_job_id(shard_id: int, uid: bytes, number: int) -> bytes:
    """The id of a schedule's job run. `number` is a fresh one of the shard's: no two are the same."""
    digest = hashlib.blake2b(
        number.to_bytes(8, "big"), digest_size=12, key=uid, person=b"perdure slot job"
    )
    return _version_8(shard_id.to_bytes(4, "big") + digest.digest())


def uuid_text(raw: bytes) -> str:
    """The canonical text of 16 bytes."""
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"

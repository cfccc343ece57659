"""Tokens that leave the engine and come back: sealed, so that nobody else can make or change one.

A sealed token is `key id (4 bytes) | MAC (16 bytes) | content (msgpack)`. The MAC is keyed BLAKE2b
(RFC 7693; a third of what HMAC-SHA256 costs, and a task needs two) over the token's purpose, its
scope and its content: a token for one purpose, namespace or query opens for no other. Sealing is
not encryption; what is inside may be read. Keys are the same on all nodes and never leave the
database.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import logging
from typing import TypeVar

import msgspec

from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.tokens import QueryToken, TaskToken
from perdure_engine.ports.clock import IdSource
from perdure_engine.ports.store import MembershipStore, TokenKeyRow

log = logging.getLogger(__name__)

KEY_ID_BYTES = 4
MAC_BYTES = 16
SCOPE_BYTES = 16
BODY_AT = KEY_ID_BYTES + MAC_BYTES
SEALED_BYTES_MAX = 64 * 1024  # ours are under 1 KiB; what is longer is not hashed at all
FIRST_KEY_ID = 1

PageT = TypeVar("PageT")

encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(TaskToken).decode
decode_query = msgspec.msgpack.Decoder(QueryToken).decode


class Purpose(bytes, enum.Enum):
    TASK = b"T"
    QUERY = b"Q"
    PAGE = b"P"
    NODE = b"N"


async def load_sealer(store: MembershipStore, ids: IdSource) -> Sealer:
    """The sealer with the cluster's keys. Makes the first one.

    Of nodes that start together one wins, and the others read its key.
    """
    keys = await store.list_token_keys()
    if not keys:
        await store.put_token_key(FIRST_KEY_ID, ids.new_id() + ids.new_id())
        keys = await store.list_token_keys()
    return Sealer(keys)


class Sealer:
    """Opens what any of the keys sealed; seals with the newest."""

    def __init__(self, keys: list[TokenKeyRow]) -> None:
        assert keys, "load_sealer makes the first key"
        self._secrets = {key.key_id.to_bytes(KEY_ID_BYTES, "big"): key.secret for key in keys}
        self._key_id = max(self._secrets)
        # What the MACs of all tasks' tokens have in common is hashed once: a task needs two.
        self._of_tasks = {
            key_id: _begun(secret, Purpose.TASK, b"") for key_id, secret in self._secrets.items()
        }

    def seal_task(self, token: TaskToken) -> bytes:
        content = encode(token)
        mac = self._of_tasks[self._key_id].copy()
        mac.update(content)
        return self._key_id + mac.digest() + content

    def open_task(self, field: str, sealed: bytes, namespace_id: bytes) -> TaskToken:
        """Raises INVALID_ARGUMENT for what we did not seal and for another namespace's token."""
        content = sealed[BODY_AT:]
        if not content or len(sealed) > SEALED_BYTES_MAX:
            raise _not_ours(field)
        begun = self._of_tasks.get(sealed[:KEY_ID_BYTES])
        if begun is None:
            raise _forged(field, Purpose.TASK)
        mac = begun.copy()
        mac.update(content)
        if not hmac.compare_digest(sealed[KEY_ID_BYTES:BODY_AT], mac.digest()):
            raise _forged(field, Purpose.TASK)
        try:
            token = decode_task(content)
        except msgspec.MsgspecError:
            raise _not_ours(field) from None
        if token.namespace_id != namespace_id:
            log.warning("a task token of another namespace was presented")
            raise _not_ours(field)
        return token

    def seal_query(self, token: QueryToken, namespace_id: bytes) -> bytes:
        return self._seal(Purpose.QUERY, namespace_id, encode(token))

    def open_query(self, field: str, sealed: bytes, namespace_id: bytes) -> QueryToken:
        try:
            return decode_query(self._open(Purpose.QUERY, namespace_id, sealed, field))
        except msgspec.MsgspecError:
            raise _not_ours(field) from None

    def seal_of_node(self, shard_id: int, intent: bytes) -> bytes:
        """That these bytes come from a node of the cluster, and are for this shard."""
        return self._seal(Purpose.NODE, b"", _digest(shard_id, intent))

    def is_of_node(self, sealed: bytes, shard_id: int, intent: bytes) -> bool:
        try:
            told = self._open(Purpose.NODE, b"", sealed, "seal")
        except Rejected:
            return False
        return hmac.compare_digest(told, _digest(shard_id, intent))

    def seal_page(self, page: msgspec.Struct, scope: bytes) -> bytes:
        """`scope` names everything the next page must have in common with this one: see `page_scope`."""
        return self._seal(Purpose.PAGE, scope, encode(page))

    def open_page(self, field: str, sealed: bytes, scope: bytes, page: type[PageT]) -> PageT:
        try:
            return msgspec.msgpack.decode(self._open(Purpose.PAGE, scope, sealed, field), type=page)
        except msgspec.MsgspecError:
            raise _not_ours(field) from None

    def _seal(self, purpose: Purpose, scope: bytes, content: bytes) -> bytes:
        key_id = self._key_id
        return key_id + _mac(self._secrets[key_id], purpose, scope, content) + content

    def _open(self, purpose: Purpose, scope: bytes, sealed: bytes, field: str) -> bytes:
        if len(sealed) <= BODY_AT or len(sealed) > SEALED_BYTES_MAX:
            raise _not_ours(field)
        secret = self._secrets.get(sealed[:KEY_ID_BYTES])
        content = sealed[BODY_AT:]
        if secret is None or not hmac.compare_digest(
            sealed[KEY_ID_BYTES:BODY_AT], _mac(secret, purpose, scope, content)
        ):
            raise _forged(field, purpose)
        return content


def page_scope(verb: bytes, told: object) -> bytes:
    """Of a list, by all that was asked for but the page. Of one size: a filter may be long."""
    return verb + hashlib.blake2b(encode(told), digest_size=SCOPE_BYTES).digest()


def _digest(shard_id: int, intent: bytes) -> bytes:
    """A seal is small, and an intent may not be."""
    return hashlib.blake2b(intent, digest_size=32, salt=shard_id.to_bytes(8, "big")).digest()


def _begun(secret: bytes, purpose: Purpose, scope: bytes) -> hashlib.blake2b:
    # The scope's length keeps it apart from the content.
    told = len(scope).to_bytes(2, "big") + scope
    return hashlib.blake2b(told, digest_size=MAC_BYTES, key=secret, person=purpose)


def _mac(secret: bytes, purpose: Purpose, scope: bytes, content: bytes) -> bytes:
    mac = _begun(secret, purpose, scope)
    mac.update(content)
    return mac.digest()


def _forged(field: str, purpose: Purpose) -> Rejected:
    log.warning("a token that this cluster did not seal was presented: %s", purpose.name)
    return _not_ours(field)


def _not_ours(field: str) -> Rejected:
    return invalid(field, "is not a token of this cluster and namespace, or was changed")

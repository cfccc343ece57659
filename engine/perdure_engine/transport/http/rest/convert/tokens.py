"""Page tokens: the handlers' sealed bytes as text for a URL."""

from __future__ import annotations

import base64
import binascii

from msgspec import UNSET, UnsetType

from perdure_engine.core.errors import invalid


def page_token(text: str) -> bytes:
    """Raises INVALID_ARGUMENT for what is no base64url."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise invalid("page_token", "is not a token of this cluster and namespace") from None


def page_token_text(sealed: bytes) -> str | UnsetType:
    """Without padding, which a URL would have to quote. b"", after the last page, is not set."""
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode() if sealed else UNSET

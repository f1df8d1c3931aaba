# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of what a session is seeded with; knows nothing of sessions."""

import hashlib
import json
from typing import TypeAlias

from truezero.fields import JsonValue

Payload: TypeAlias = "bytes | JsonValue"
"""What a session is seeded with: bytes, or any decoded JSON value."""


def payload_digest(payload: Payload) -> bytes:
    """Digest a payload, so that a repeated seed is told from another one.

    Args:
        payload: Bytes, compared as they are; or a JSON value, of which the order of keys does not
            count. Bytes never equal a JSON value.

    Returns:
        32 bytes.

    Raises:
        TypeError: Something in it is no JSON.
    """
    if isinstance(payload, bytes):
        return hashlib.blake2b(payload, digest_size=32, person=b"bytes").digest()
    text = json.dumps(payload, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=32, person=b"json").digest()

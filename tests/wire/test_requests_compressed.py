# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How compressed request bodies are decoded within bounds."""

import gzip
import tracemalloc
import zlib

import pytest

from truezero.wire.requests import BodyCorruptError, BodyTooLargeError, decode_body

PLAIN = b'{"reward":1}' * 1000


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (gzip.compress(PLAIN), "gzip"),
        (gzip.compress(PLAIN), "x-gzip"),
        (gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]), "gzip"),
        (gzip.compress(PLAIN) + b"\0" * 512, "gzip"),
        (zlib.compress(PLAIN), "deflate"),
        (zlib.compress(PLAIN, wbits=-15), "deflate"),
    ],
)
def test_compressed_bodies_are_decoded(body, encoding):
    """Several gzip members and both meanings of deflate are understood, up to the limit."""
    # case G05
    assert decode_body(body, encoding=encoding, limit=len(PLAIN)) == PLAIN
    with pytest.raises(BodyTooLargeError) as caught:
        decode_body(body, encoding=encoding, limit=len(PLAIN) - 1)
    assert caught.value.limit == len(PLAIN) - 1
    with pytest.raises(BodyCorruptError):
        decode_body(body.rstrip(b"\0")[:-5], encoding=encoding, limit=len(PLAIN))


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", "gzip"),
        (PLAIN, "gzip"),
        (PLAIN, "deflate"),
        (gzip.compress(PLAIN) + b"x", "gzip"),
        (zlib.compress(PLAIN) + zlib.compress(PLAIN), "deflate"),
        (gzip.compress(b"") * 20_000, "gzip"),
    ],
)
def test_a_corrupt_compressed_body_is_told(body, encoding):
    """Bytes that are not what the encoding says never count as a body."""
    with pytest.raises(BodyCorruptError) as caught:
        decode_body(body, encoding=encoding, limit=1 << 20)
    assert caught.value.encoding == encoding


def test_a_bomb_is_stopped_early():
    """A body that unfolds to 1 GB is given up at the limit."""
    squeezed = zlib.compressobj(9)
    bomb = b"".join(squeezed.compress(b"\0" * (1 << 20)) for _ in range(64)) + squeezed.flush()
    tracemalloc.start()
    with pytest.raises(BodyTooLargeError):
        decode_body(bomb, encoding="deflate", limit=100_000)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_an_unknown_encoding_is_a_mistake_of_the_caller():
    """Only the encodings that can be undone are taken."""
    with pytest.raises(ValueError, match="encoding must be one of"):
        decode_body(b"", encoding="br", limit=10)

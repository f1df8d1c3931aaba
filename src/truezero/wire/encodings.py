# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How JSON may be coded as bytes: character sets and compression; knows nothing of its content."""

import codecs
import json
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from truezero.errors import TruezeroError

DECODABLE: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""Content encodings that ``decode_body`` can undo."""

_BOMS: Final = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB_METHOD: Final = 8
_BLOCK: Final = 1 << 16
_MOST_MEMBERS: Final = 1 << 12
_MORE: Final = b"\x1f"
_CUT_SHORT: Final = "the stream is cut short"


class BodyTooLargeError(TruezeroError):
    """Raised when a body grows beyond its limit while it is being decoded.

    Attributes:
        limit: The bound, in bytes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the decoded body is larger than {limit} bytes")
        self.limit = limit


class BodyCorruptError(TruezeroError):
    """Raised when a body is not what its content-encoding says, or is cut short."""

    def __init__(self, encoding: str) -> None:
        super().__init__(f"the body is not valid {encoding} data")
        self.encoding = encoding


class Decoded(NamedTuple):
    """A body as text, and how to write text back in the same coding.

    Attributes:
        text: The characters, without a byte order mark; lone surrogates stay as they are.
        mark: The byte order mark that stood in front, or ``b""``.
        codec: The codec without a mark, e.g. ``utf-16-le``.
    """

    text: str
    mark: bytes
    codec: str

    def encoded(self, piece: str) -> bytes:
        """The bytes of a piece of the text, exactly as they were."""
        return piece.encode(self.codec, "surrogatepass")


def is_plain_utf8(body: bytes) -> bool:
    """Whether the body has no byte order mark and no NUL in its first four bytes."""
    return b"\0" not in body[:4] and not body.startswith(
        (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
    )


def as_text(body: bytes) -> Decoded | None:
    """Decode a body as the standard library's ``json.loads`` would.

    Returns:
        The text, or None when the bytes are invalid in the encoding that they appear to have.

    Source:
        CPython's ``json.detect_encoding``; Starlette's ``Request.json`` hands it the raw bytes.
    """
    boms = ((known, exact) for known, exact in _BOMS if body.startswith(known))
    mark, codec = next(boms, (b"", str(json.detect_encoding(body))))
    try:
        text = body[len(mark) :].decode(codec, "surrogatepass")
    except UnicodeDecodeError:
        return None
    return Decoded(text, mark, codec)


def lenient_texts(body: bytes) -> Iterator[str]:
    """What a reader sees that drops all that is invalid, in UTF-8 and in the apparent encoding.

    A byte order mark stays, as U+FEFF.
    """
    yield body.decode("utf-8", "ignore")
    boms = (exact for known, exact in _BOMS if body.startswith(known))
    codec = next(boms, str(json.detect_encoding(body)))
    if codec != "utf-8":
        yield body.decode(codec, "ignore")


def as_characters(body: bytes) -> Decoded:
    """One character for each byte, so that broken UTF-8 can be walked, too."""
    return Decoded(body.decode("latin-1"), b"", "latin-1")


def decode_body(body: bytes, *, encoding: str, limit: int) -> bytes:
    """Undo a content-encoding within bounds.

    Args:
        body: The compressed bytes; gzip may have several members.
        encoding: One of ``DECODABLE``, in lower case.
        limit: Most bytes to produce; never more than one byte beyond it is held. A gzip body of
            more than 4,096 members counts as corrupt.

    Raises:
        BodyTooLargeError: The decoded body is larger than ``limit``.
        BodyCorruptError: The bytes are not valid, are cut short, or have something behind them.
        ValueError: The encoding is none of ``DECODABLE``.

    Source:
        RFC 9110, 8.4.1; RFC 1952, 2.2 (members follow one another).
    """
    if encoding not in DECODABLE:
        problem = f"encoding must be one of {sorted(DECODABLE)}, not {encoding!r}"
        raise ValueError(problem)
    window = _window(body, encoding=encoding)
    parts: list[bytes] = []
    position, room = 0, limit
    for _ in range(_MOST_MEMBERS):
        try:
            position, room = _inflate(body, position, window=window, room=room, into=parts)
        except zlib.error as error:
            raise BodyCorruptError(encoding) from error
        if room < 0:
            raise BodyTooLargeError(limit)
        # Zeros may pad a gzip file; the first byte is looked at first, as members can be many.
        if not body.startswith(_MORE, position) and not body[position:].strip(b"\0"):
            return b"".join(parts)
        if window != _GZIP:
            break
    raise BodyCorruptError(encoding)


def _inflate(
    body: bytes, position: int, *, window: int, room: int, into: list[bytes]
) -> tuple[int, int]:
    """Decode one stream; return where it ends and how much room is left, below 0 for too little.

    Raises:
        zlib.error: The stream is invalid or cut short.
    """
    decoder = zlib.decompressobj(window)
    while not decoder.eof and room >= 0:
        block = body[position : position + _BLOCK]
        if not block:
            raise zlib.error(_CUT_SHORT)
        part = decoder.decompress(block, room + 1)
        room -= len(part)
        into.append(part)
        position += len(block) - len(decoder.unused_data)
    return position, room


def _window(body: bytes, *, encoding: str) -> int:
    """What zlib needs to know: "deflate" means zlib's format, yet many send the bare stream."""
    if encoding != "deflate":
        return _GZIP
    head = int.from_bytes(body[:2], "big")
    wrapped = head >> 8 & 0x0F == _ZLIB_METHOD and head % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


def is_valid_utf8(body: bytes) -> bool:
    """Whether a body is UTF-8 throughout; read in blocks, never copied as a whole."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _BLOCK):
            decoder.decode(body[start : start + _BLOCK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True

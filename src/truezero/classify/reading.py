# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads structured facts off somebody else's exception; never a message, never raises.

An attribute may be a property that raises, a wrong type or a hostile object: what cannot be read
is absent.
"""

import math
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, TypeGuard, TypeVar, cast
from urllib.parse import urlsplit

from truezero.classify.rows import BUILTIN_ROWS, ERRNO_SENSES, GRPC_ROWS, MEMORY, SLOW, Row
from truezero.classify.senses import TRANSPORT, Sense
from truezero.classify.table import FOREIGN_ROWS

MAX_RETRY_AFTER_S: Final = 86_400.0
"""Longest wait that a peer may ask for, in seconds (one day)."""

Kind = TypeVar("Kind")

# aiohttp's total timeout is a bare TimeoutError; only the code that raised it tells it from the
# deadline of a grader.
_CLIENT_CLOCKS: Final = frozenset({"aiohttp"})
_KILLED: Final = frozenset({-9, 137})
_HOST_LIMIT: Final = 255
_CODE = re.compile(r"[a-z][a-z0-9_.]{1,63}")
_HOST = re.compile(r"[A-Za-z0-9.:_\-]+")
_URL_PATHS: Final = (
    ("request", "url"),
    ("response", "url"),
    ("request_info", "real_url"),
    ("url",),
)
_HEADER_PATHS: Final = (("response", "headers"), ("headers",))
_HTTP_STATUSES: Final = range(100, 600)


def read(subject: object, *path: str) -> object:
    """Follow a path of attributes (``"0"`` is the first item); ``None`` where it ends early."""
    for name in path:
        try:
            if name == "0":
                subject = cast("tuple[object, ...]", subject)[0]
            else:
                subject = getattr(subject, name, None)
        except Exception:  # noqa: BLE001 -- a property of somebody else's may raise anything
            return None
    return subject


def is_a(subject: object, cls: type[Kind]) -> TypeGuard[Kind]:
    """``isinstance`` that does not ask the object, whose ``__class__`` may raise or lie."""
    return issubclass(type(subject), cls)


def row_of(exc: BaseException) -> Row | None:
    """What an exception's class says, looked up along its ``__mro__``; ``None`` if unknown."""
    row = _class_row(type(exc))
    if type(exc) is TimeoutError and _raised_in(exc) in _CLIENT_CLOCKS:
        return SLOW
    if is_a(exc, OSError):
        return _numbered(row, read(exc, "errno"))
    if row is not None and row.exit_code:
        code = read(exc, row.exit_code)
        return MEMORY if isinstance(code, int) and code in _KILLED else row
    if row is not None and row.coded:
        return GRPC_ROWS.get(str(read(_called(read(exc, "code")), "name")), row)
    return row


def carried_by(exc: BaseException) -> BaseException | None:
    """The exception inside an exception, where its row says that it has one."""
    row = _class_row(type(exc))
    inner = read(exc, *row.inner) if row is not None and row.inner else None
    return inner if is_a(inner, BaseException) else None


def status_of(exc: BaseException, row: Row) -> int | None:
    """The HTTP status that an exception carries, if its row says where and it is one."""
    status = read(exc, *row.status) if row.status else None
    return int(status) if isinstance(status, int) and status in _HTTP_STATUSES else None


def host_of(exc: BaseException) -> str | None:
    """The host that an exception speaks of, without user, port, path or query."""
    for path in _URL_PATHS:
        url = read(exc, *path)
        if url is not None:
            return _host(url)
    return None


def code_of(exc: BaseException) -> str | None:
    """A model API's own error code, e.g. ``insufficient_quota``, if it looks like one."""
    code = read(exc, "code")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def retry_after_of(exc: BaseException) -> float | None:
    """Seconds of a ``Retry-After`` header that an exception carries; a date counts from now."""
    for path in _HEADER_PATHS:
        headers = read(exc, *path)
        for name in ("retry-after", "Retry-After"):
            value = _item(headers, name)
            if isinstance(value, str):
                return parse_retry_after(value)
    return None


def is_local_shortage(exc: BaseException) -> bool:
    """Whether an exception is an ``OSError`` that says this machine ran out of something."""
    number = read(exc, "errno") if is_a(exc, OSError) else None
    return isinstance(number, int) and ERRNO_SENSES.get(number) is Sense.LOCAL_RESOURCE


def parse_retry_after(value: str) -> float | None:
    """Read a ``Retry-After`` value, seconds or an HTTP date; bounded, ``None`` if unreadable.

    >>> parse_retry_after("7")
    7.0
    """
    try:
        return bounded_wait(float(value))
    except ValueError:
        return bounded_wait(_seconds_until(value))


def bounded_wait(seconds: object) -> float | None:
    """A wait as finite seconds from 0 to ``MAX_RETRY_AFTER_S``; ``None`` for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    bounded = float(min(max(seconds, 0), MAX_RETRY_AFTER_S))
    return None if math.isnan(bounded) else bounded


def _class_row(cls: type[BaseException]) -> Row | None:
    for base in cls.__mro__:
        row = BUILTIN_ROWS.get(base)
        if row is None:
            module = read(base, "__module__")
            package = module.partition(".")[0] if isinstance(module, str) else ""
            row = FOREIGN_ROWS.get(f"{package}.{read(base, '__name__')}")
        if row is not None:
            return row
    return None


def _raised_in(exc: BaseException) -> str:
    """The top-level package whose code raised an exception; empty if that is not known."""
    trace = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    return name.partition(".")[0] if isinstance(name, str) else ""


def _numbered(row: Row | None, number: object) -> Row | None:
    """Let an error number speak where the class says less than it."""
    sense = ERRNO_SENSES.get(number) if isinstance(number, int) else None
    if sense is None:
        return row
    if row is None or row.coarse or row.sense is Sense.CLOCK:
        return Row(sense)
    if sense is Sense.LOCAL_RESOURCE and row.sense in TRANSPORT:
        return Row(sense)
    return row


def _called(method: object) -> object:
    if not callable(method):
        return None
    try:
        return cast("Callable[[], object]", method)()
    except Exception:  # noqa: BLE001 -- a method of somebody else's may raise anything
        return None


def _item(headers: object, name: str) -> object:
    get = read(headers, "get")
    if not callable(get):
        return None
    try:
        return cast("Callable[[str], object]", get)(name)
    except Exception:  # noqa: BLE001 -- a mapping of somebody else's may raise anything
        return None


def _host(url: object) -> str | None:
    try:
        host = urlsplit(str(url)).hostname or ""
    except Exception:  # noqa: BLE001 -- the text of somebody else's object, or no URL at all
        return None
    return host[:_HOST_LIMIT] if _HOST.fullmatch(host) else None


def _seconds_until(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None

# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What one class, one error number or one gRPC code says; reads no message.

A builtin is looked up as the class object: code run by ``exec`` makes classes whose module says
"builtins", and a model may have written them.
"""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from truezero.classify.senses import Sense


@dataclass(frozen=True, slots=True)
class Row:
    """What one exception class says.

    Attributes:
        sense: What went wrong.
        transient: ``False`` where trying the same again cannot help.
        status: Path of attributes to the HTTP status that decides ``transient``, if any.
        inner: Path of attributes to an exception carried inside, which knows more.
        exit_code: Attribute that holds a process's exit code, if any.
        coded: Whether ``code().name`` is a gRPC status that says more.
        coarse: Whether a cause with a row of its own knows better than this class.
        own_words: Whether the message is the client's, not a copy of a remote reply.
        reply: Whether the status is the one that this server itself answers with.
    """

    sense: Sense
    transient: bool = True
    status: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    exit_code: str = ""
    coded: bool = False
    coarse: bool = False
    own_words: bool = True
    reply: bool = False


BROKE = Row(Sense.BROKE)
MISUSE = Row(Sense.BROKE, transient=False)
BAD_ADDRESS = Row(Sense.UNREACHABLE, transient=False)
UNREACHABLE = Row(Sense.UNREACHABLE)
PEER_DROP = Row(Sense.PEER_DROP)
SLOW = Row(Sense.SLOW)
LOCAL = Row(Sense.LOCAL_RESOURCE)
CLOCK = Row(Sense.CLOCK)
PROVIDER = Row(Sense.PROVIDER)
DENIED = Row(Sense.PROVIDER, transient=False)
QUOTA = Row(Sense.QUOTA)
MEMORY = Row(Sense.MEMORY)
CANCELLED = Row(Sense.CANCELLED)
REMOTE = Row(Sense.REMOTE)

BUILTIN_ROWS: Final[Mapping[type[BaseException], Row]] = MappingProxyType(
    {
        KeyboardInterrupt: Row(Sense.EXIT),
        SystemExit: Row(Sense.EXIT),
        GeneratorExit: CANCELLED,
        ConnectionRefusedError: UNREACHABLE,
        ConnectionResetError: PEER_DROP,
        ConnectionAbortedError: PEER_DROP,
        BrokenPipeError: PEER_DROP,
        ConnectionError: Row(Sense.UNREACHABLE, coarse=True),
        TimeoutError: CLOCK,
        MemoryError: BROKE,
    }
)
"""Builtins, by identity. ``OSError`` is read by its number: ``ERRNO_SENSES``."""

ERRNO_SENSES: Final[Mapping[int, Sense]] = MappingProxyType(
    {
        errno.EMFILE: Sense.LOCAL_RESOURCE,
        errno.ENFILE: Sense.LOCAL_RESOURCE,
        errno.ENOSPC: Sense.LOCAL_RESOURCE,
        errno.EDQUOT: Sense.LOCAL_RESOURCE,
        errno.ENOBUFS: Sense.LOCAL_RESOURCE,
        errno.EADDRNOTAVAIL: Sense.LOCAL_RESOURCE,
        errno.EADDRINUSE: Sense.LOCAL_RESOURCE,
        errno.ENOMEM: Sense.BROKE,  # the same shortage as a MemoryError, so the same kind
        errno.ECONNREFUSED: Sense.UNREACHABLE,
        errno.EHOSTUNREACH: Sense.UNREACHABLE,
        errno.ENETUNREACH: Sense.UNREACHABLE,
        errno.EHOSTDOWN: Sense.UNREACHABLE,
        errno.ENETDOWN: Sense.UNREACHABLE,
        errno.ECONNRESET: Sense.PEER_DROP,
        errno.ECONNABORTED: Sense.PEER_DROP,
        errno.EPIPE: Sense.PEER_DROP,
        errno.ESHUTDOWN: Sense.PEER_DROP,
        # The kernel gave up on a peer; a deadline of Python's own carries no number.
        errno.ETIMEDOUT: Sense.SLOW,
    }
)
"""Error numbers that say more than their class."""

GRPC_ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "UNAVAILABLE": UNREACHABLE,
        "DEADLINE_EXCEEDED": SLOW,
        "RESOURCE_EXHAUSTED": QUOTA,
        "CANCELLED": PEER_DROP,
        "ABORTED": PROVIDER,
        "DATA_LOSS": PROVIDER,
        "INTERNAL": PROVIDER,
        "UNKNOWN": PROVIDER,
        "ALREADY_EXISTS": DENIED,
        "FAILED_PRECONDITION": DENIED,
        "INVALID_ARGUMENT": DENIED,
        "NOT_FOUND": DENIED,
        "OUT_OF_RANGE": DENIED,
        "PERMISSION_DENIED": DENIED,
        "UNAUTHENTICATED": DENIED,
        "UNIMPLEMENTED": DENIED,
    }
)
"""gRPC status names, as ``code().name`` spells them."""

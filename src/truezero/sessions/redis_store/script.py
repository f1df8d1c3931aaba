# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A Lua script and its calls as bytes of Redis' protocol; knows nothing of what scripts do."""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, final

Reply: TypeAlias = bytes | int | list[bytes | int | None] | None
"""What a script answers."""

_LARGE: Final = 65_536
"""From this many bytes an argument is sent as it is, instead of being copied into the command."""


@final
class Script:
    """A script that runs on the server in one step.

    Args:
        text: Lua.
    """

    def __init__(self, text: str) -> None:
        """Name it as the server does."""
        source = text.encode()
        name = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
        self.short = (b"EVALSHA", name)
        self.whole = (b"EVAL", source)


@final
class Call(NamedTuple):
    """One call of a script.

    Attributes:
        script: The script.
        keys: Keys it touches, all of one slot; one at least.
        args: Its further arguments.
    """

    script: Script
    keys: Sequence[bytes]
    args: Sequence[bytes]

    def short(self) -> Sequence[bytes]:
        """The command, with the script by its name."""
        return self._packed(self.script.short)

    def whole(self) -> Sequence[bytes]:
        """The command, with the script by its text, which a server keeps from then on."""
        return self._packed(self.script.whole)

    def _packed(self, head: Sequence[bytes]) -> Sequence[bytes]:
        parts = (*head, b"%d" % len(self.keys), *self.keys, *self.args)
        pieces = [b"*%d\r\n" % len(parts)]
        large = False
        for part in parts:
            size = len(part)
            if size < _LARGE:
                pieces.append(b"$%d\r\n%b\r\n" % (size, part))
            else:
                pieces += (b"$%d\r\n" % size, part, b"\r\n")
                large = True
        return pieces if large else (b"".join(pieces),)

# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions for new environment servers: one state object for each; knows nothing of HTTP."""

from truezero.sessions.toolkit.kept.codecs import (
    Codec,
    MsgspecCodec,
    PickleCodec,
    PydanticCodec,
)
from truezero.sessions.toolkit.kept.keeper import Keeper
from truezero.sessions.toolkit.refusals import SessionBusyError, SessionReentryError
from truezero.sessions.toolkit.seeding import Seeding
from truezero.sessions.toolkit.sessions import Sessions
from truezero.sessions.toolkit.words import Closing, Made, ReleaseCause, Seeded, Stats

__all__ = [
    "Closing",
    "Codec",
    "Keeper",
    "Made",
    "MsgspecCodec",
    "PickleCodec",
    "PydanticCodec",
    "ReleaseCause",
    "Seeded",
    "Seeding",
    "SessionBusyError",
    "SessionReentryError",
    "Sessions",
    "Stats",
]

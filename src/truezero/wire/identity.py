# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads which rollout and session a request names; knows nothing of what is done with that."""

import re
from typing import Final, NamedTuple, cast

import msgspec

from truezero.wire.generous import read_members

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,511}")
_MOST_DIGITS: Final = 18
NAMES_SESSION: Final = b"resources_session_id"
"""Without these bytes a body names no session; a look for them costs far less than reading it."""
SESSION_ID_LIMIT: Final = 512
"""Longest session id that is read, in characters."""


class Identity(NamedTuple):
    """What a request says of itself.

    Attributes:
        session_id: ``resources_session_id``, by which the caller names the session itself.
        rollout_id: The rollout with its attempt, e.g. ``17-3`` or, from the second attempt on,
            ``17-3-a1``: NeMo Gym's capture key.
    """

    session_id: str | None = None
    rollout_id: str | None = None


class _Members(msgspec.Struct):
    """The members that name something, of any type: a caller may write what it likes."""

    session_id: object = msgspec.field(default=None, name="resources_session_id")
    episode_id: object = None
    rollout_id: object = msgspec.field(default=None, name="_ng_rollout_id")
    task: object = msgspec.field(default=None, name="_ng_task_index")
    rollout: object = msgspec.field(default=None, name="_ng_rollout_index")
    attempt: object = msgspec.field(default=None, name="_ng_attempt_index")


_NOBODY: Final = Identity()


def read_identity(body: bytes) -> Identity:
    """Read the names in a seed's, tool's or verify's body; everything else in it is skipped.

    Args:
        body: A request's body, in any encoding that ``json.loads`` takes.

    Returns:
        What it names; nothing for a body that is no JSON object, or for names of another shape.
        Never raises.

    Source:
        nemo-gym 0.7.0: ``rollout_correlation.maybe_rollout_id_from_run_body``, ``EpisodeId``.
    """
    members = read_members(body, _Members)
    if members is None:
        return _NOBODY
    session = members.session_id
    named = isinstance(session, str) and 0 < len(session) <= SESSION_ID_LIMIT
    return Identity(cast("str", session) if named else None, _rollout_of(members))


def _rollout_of(members: _Members) -> str | None:
    named: object = members.episode_id
    if isinstance(named, dict):
        episode = cast("dict[str, object]", named)
        return _qualified(episode.get("rollout_id"), episode.get("attempt"))
    if members.rollout_id is not None:
        return _qualified(members.rollout_id, members.attempt)
    task, rollout = _number(members.task), _number(members.rollout)
    if task is None or rollout is None:
        return None
    return _qualified(f"{task}-{rollout}", members.attempt)


def _qualified(rollout_id: object, attempt: object) -> str | None:
    if not isinstance(rollout_id, str) or not _ID.fullmatch(rollout_id):
        return None
    number = _number(attempt)
    return f"{rollout_id}-a{number}" if number else rollout_id


def _number(value: object) -> int | None:
    """A whole number, or digits; ``None`` for what counts nothing."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= _MOST_DIGITS:
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return cast("int", value) if is_number and cast("int", value) < 10**_MOST_DIGITS else None

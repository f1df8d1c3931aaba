# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Takes out of a request what only a response may say; knows nothing of ASGI or of policy.

A body is never written anew: names are cut out of its bytes, so numbers, order, escapes and
duplicates of everything else survive. A clean body is handed back as the very same object.
"""

from typing import Final

from truezero.fields import OwnedFields
from truezero.wire.encodings import DECODABLE, BodyCorruptError, BodyTooLargeError, decode_body
from truezero.wire.failed_agent import AgentFailure
from truezero.wire.inspector import InspectedRequest, Inspector
from truezero.wire.scan import simd_find

__all__ = [
    "DECODABLE",
    "AgentFailure",
    "BodyCorruptError",
    "BodyTooLargeError",
    "InspectedRequest",
    "decode_body",
    "inspect_request",
]

_MOST_INSPECTORS: Final = 64
_SIMD: Final = simd_find()
# By identity, since hashing the fields costs more than the look-up; each entry keeps its fields
# alive, so that an id is never reused while it is listed.
_INSPECTORS: Final[dict[int, Inspector]] = {}


def inspect_request(body: bytes, *, owned: OwnedFields) -> InspectedRequest:
    """Remove response-owned fields from a request and look for the mark of a failed agent.

    Owned names go at the top level, every duplicate, in any spelling and in every encoding that
    the standard library's ``json.loads`` accepts; owned nested names (``mask_sample`` inside
    ``instance_config``) go when the outer value is an object. The same names anywhere else stay.

    Args:
        body: The whole request body; the caller bounds its size.
        owned: The names to remove.

    Returns:
        The finding. What is not a JSON object comes back unchanged, for the app to refuse; but
        ``refused`` is set when it begins like one and holds an owned name in double quotes, plain
        or escaped or interrupted by broken UTF-8. Idempotent; never raises, whatever the bytes.

    Source:
        NVIDIA-NeMo/Gym#2552: a request that carries ``reward`` makes the server raise
        ``TypeError`` or, with a spread of the request, forges the verdict.
    """
    inspector = _INSPECTORS.get(id(owned))
    if inspector is None:
        if len(_INSPECTORS) >= _MOST_INSPECTORS:
            _INSPECTORS.clear()
        inspector = _INSPECTORS[id(owned)] = Inspector(owned, find=_SIMD)
    return inspector.inspect(body)

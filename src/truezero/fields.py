# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The field names that only a response may carry; knows nothing of how they are stripped."""

from dataclasses import dataclass
from typing import Final, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""Any decoded JSON value."""

REWARD: Final = "reward"
MASK_SAMPLE: Final = "mask_sample"
FAILURE_KIND: Final = "failure_kind"
FAILURE_REASON: Final = "failure_reason"
REWARD_COMPONENTS: Final = "reward_components"
INSTANCE_CONFIG: Final = "instance_config"
NG_FAILURE_CLASS: Final = "_ng_failure_class"
NG_PREFIX: Final = "_ng_failure_"
NG_NO_PERSIST: Final = "_ng_no_persist"


@dataclass(frozen=True, slots=True)
class OwnedFields:
    """Names that a request must not bring along.

    Attributes:
        names: Exact top-level names.
        prefixes: Beginnings of top-level names.
        nested: Object name -> the names owned inside that top-level object.
    """

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    nested: tuple[tuple[str, frozenset[str]], ...] = ()

    def owns(self, name: str) -> bool:
        """Whether a top-level field of this name belongs to the response."""
        return name in self.names or name.startswith(self.prefixes or ("\0",))

    def extended(self, extra: frozenset[str]) -> "OwnedFields":
        """The same with more top-level names (a server's own response fields)."""
        return OwnedFields(self.names | extra, self.prefixes, self.nested)


NEMO_GYM_OWNED: Final = OwnedFields(
    names=frozenset(
        {REWARD, MASK_SAMPLE, FAILURE_KIND, FAILURE_REASON, REWARD_COMPONENTS, NG_NO_PERSIST}
    ),
    prefixes=(NG_PREFIX,),
    nested=((INSTANCE_CONFIG, frozenset({MASK_SAMPLE})),),
)
"""What NeMo Gym's collector and NeMo-RL read from a reply as a verdict.

``_ng_rollout_id``, ``_ng_task_index`` and the like are the caller's own and stay.

Source:
    nemo-gym 0.7.0, ``base_resources_server.BaseVerifyResponse`` and ``rollout_collection``.
"""

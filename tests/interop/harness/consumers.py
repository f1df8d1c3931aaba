# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The readers of a verify reply: NeMo Gym's environment servers and collector, and NeMo-RL's way.

NeMo Gym's own code does its reading. NeMo-RL is no dependency: what it reads is written down here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.serving import Instance, Order, Served

Json = dict[str, Any]
SINGLE, LEGACY = "single_agent_turn", "single_agent_turn_legacy"
_CLASSES = {
    SINGLE: "SingleAgentTurnEnvironmentServer",
    LEGACY: "SingleAgentTurnLegacyEnvironmentServer",
}


def environment_servers(
    resources: Mapping[str, int], *, server: str, agent_port: int, **options: Any
) -> Served:
    """Start both kinds of environment server in front of each resources server.

    Args:
        resources: Variant -> port of the resources server.
        server: The resources server's name, which rows route by.
        agent_port: Where the agent is found.
        options: Further fields of the order.

    Returns:
        A process with the variants ``<kind>/<variant>``.
    """
    place = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
    sections: Json = {"agent": {"responses_api_agents": {"scripted": place | {"port": agent_port}}}}
    variants: dict[str, tuple[Instance, None]] = {}
    for variant, port in resources.items():
        name = f"{server}-{variant}"
        sections[name] = {"resources_servers": {server: place | {"port": port}}}
        for kind, class_name in _CLASSES.items():
            instance = f"{kind}-{variant}"
            section = place | {
                "resources_server": {"type": "resources_servers", "name": name},
                "agent_server": {"type": "responses_api_agents", "name": "agent"},
                "cleanup_timeout_seconds": 5,
                "default_episode_timeout_seconds": 30,
            }
            sections[instance] = {"environment_servers": {kind: section}}
            module = f"environment_servers.{kind}.app"
            variants[f"{kind}/{variant}"] = Instance(module, class_name, instance), None
    return Served(Order(variants=variants, sections=sections, **options), title="environment")


@dataclass(frozen=True)
class TrainerRow:
    """What NeMo-RL makes of a finished rollout.

    Attributes:
        reward: Enters the group's advantage.
        masked: Whether the sample is left out of the loss.
        trainable: Output items that carry token ids.
    """

    reward: float
    masked: bool
    trainable: int


def nemo_rl_reads(result: Mapping[str, Any]) -> TrainerRow:
    """Read a row as NeMo-RL does: three places, and errors instead of defaults.

    Raises:
        TypeError: ``reward`` is null, which ends the batch.
        ValueError: No output item can be trained on, which ends the batch.

    Source:
        NeMo-RL, August 2026: ``rollout_manager`` (reward), ``rollouts`` (mask), ``nemo_gym``
        (output items). It ignores the top-level ``mask_sample``.
    """
    reward = float(result["reward"])
    config = result.get("instance_config")
    masked = bool(config.get("mask_sample", False)) if isinstance(config, Mapping) else False
    output = result["response"]["output"]
    trainable = [item for item in output if "generation_token_ids" in item]
    if not trainable:
        message = "no trainable item"
        raise ValueError(message)
    return TrainerRow(reward, masked, len(trainable))

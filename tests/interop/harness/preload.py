# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the fork server imports once, so that each server process starts at once; holds no code."""

import environment_servers.single_agent_turn_legacy.app  # noqa: F401
import httptools  # noqa: F401
import math_verify  # noqa: F401
import nemo_gym.base_resources_server
import nemo_gym.mcp_auto_exposure
import nemo_gym.sandbox  # noqa: F401
import resources_servers.swe_next.app  # noqa: F401
import uvicorn  # noqa: F401

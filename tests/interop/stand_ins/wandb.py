# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for wandb, which NeMo Gym's metrics import for one type; knows nothing of runs."""


class Histogram:
    """Takes anything and keeps nothing: no metric is ever exported here."""

    def __init__(self, *_values: object, **_options: object) -> None: ...

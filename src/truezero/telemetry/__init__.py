# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What happened, told to OpenTelemetry and the log; knows nothing of HTTP replies or policy."""

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from truezero.telemetry.facts import CallFacts
from truezero.telemetry.telemetry import Telemetry

__all__ = ["CallFacts", "MeterProvider", "Telemetry", "TracerProvider"]

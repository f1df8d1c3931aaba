# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of one server's settings: names, bounds, defaults; knows nothing of their sources."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias, TypedDict, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
)

from truezero.policy.breaker import WINDOW_LIMIT, Breaker, OnTrip
from truezero.policy.table import Policy

MIB: Final = 1024 * 1024
ROUTED: Final = ("seed", "verify", "close", "run")
"""Boundaries that have routes; tools are the app's other POST routes."""

PROTOCOL_FIELDS: Final = frozenset({"response", "responses_create_params"})
"""Request fields that the caller sends to be graded: no setting may have them stripped."""

RoutedBoundary: TypeAlias = Literal["seed", "verify", "close", "run"]
_PATH = re.compile(r"/([^\s?#{}]|\{[A-Za-z_]\w*(:[A-Za-z_]\w*)?\})*", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_WORD = re.compile(r"[a-z][a-z0-9_]*")


def _words(value: object) -> object:
    """Take one word, or words with commas between, for a list: variables have no lists."""
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


def _tool_paths(value: object) -> object:
    """Take ``auto`` as it is, ``none`` for no path, else paths as a list takes them."""
    if value is None or value == "none":
        return ()
    return value if value == "auto" else _words(value)


def _spelled(pattern: re.Pattern[str]) -> AfterValidator:
    def check(text: str) -> str:
        if pattern.fullmatch(text) is None:
            message = f"not spelled as {pattern.pattern}"
            raise ValueError(message)
        return text

    return AfterValidator(check)


def _ordered(value: object) -> object:
    # Pydantic takes a set for a tuple, and which of its two is the lower end nobody knows.
    if value is not None and not isinstance(value, list | tuple):
        message = "no list"
        raise ValueError(message)
    return cast("object", value)


def _removable(names: frozenset[str]) -> frozenset[str]:
    if names & PROTOCOL_FIELDS:
        message = "stripping it would take the answer away"
        raise ValueError(message)
    return names


def _ascending(pair: tuple[float, float] | None) -> tuple[float, float] | None:
    if pair is not None and pair[0] >= pair[1]:
        message = "the lower end comes first"
        raise ValueError(message)
    return pair


def _one_boundary_each(
    routes: Mapping[RoutedBoundary, tuple[str, ...]],
) -> Mapping[RoutedBoundary, tuple[str, ...]]:
    paths = [path for those in routes.values() for path in set(those)]
    if len(paths) != len(set(paths)):
        message = "one path, two boundaries"
        raise ValueError(message)
    return MappingProxyType(dict(routes))


_Text: TypeAlias = Annotated[str, Field(strict=True, min_length=1)]
_Word: TypeAlias = Annotated[_Text, _spelled(_WORD)]
_Count: TypeAlias = Annotated[int, Field(strict=True)]
_Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Path: TypeAlias = Annotated[_Text, _spelled(_PATH)]
_Paths: TypeAlias = Annotated[tuple[_Path, ...], BeforeValidator(_words), Field(min_length=1)]


class BreakerKeys(BaseModel):
    """The keys of ``breaker``, each on its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: _Count = Field(
        default=256, ge=1, le=WINDOW_LIMIT, description=f"a whole number, 1 to {WINDOW_LIMIT}"
    )
    bound: _Number = Field(default=0.5, gt=0, lt=1, description="a number between 0 and 1")
    minimum: _Count = Field(
        default=64, ge=1, le=WINDOW_LIMIT, description="a whole number, 1 to the window"
    )
    on_trip: OnTrip = Field(default=OnTrip.LOG, description="'log' or 'stop'")


class BreakerSettings(BreakerKeys):
    """The breaker's options for one server; immutable.

    Attributes:
        window: How many of the last verifies count.
        bound: Trips when the failed share is greater.
        minimum: Trips only with at least so many verifies in the window.
        on_trip: Whether a trip is logged, or stops the server's verifies until a reset.
    """

    def create(self) -> Breaker:
        """Make a breaker with these options.

        Raises:
            ConfigurationError: ``minimum`` is greater than ``window``.
        """
        return Breaker(
            window=self.window, bound=self.bound, minimum=self.minimum, on_trip=self.on_trip
        )


class ServerKeys(BaseModel):
    """The plain keys of one server, as files, variables and Python give them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: _Word = Field(default="nemo_gym", description="a dialect's name, e.g. 'nemo_gym'")
    mode: _Word | None = Field(default=None, description="one of the dialect's modes, e.g. 'mask'")
    deadline_s: _Number = Field(
        default=3600.0, gt=0, le=86_400, description="seconds, more than 0, at most 86400"
    )
    max_body_bytes: _Count = Field(
        default=128 * MIB, ge=1, le=16_384 * MIB, description="bytes, 1 to 17179869184"
    )
    max_reply_bytes: _Count = Field(
        default=256 * MIB, ge=1, le=16_384 * MIB, description="bytes, 1 to 17179869184"
    )
    stateful: Annotated[bool, Field(strict=True)] | Literal["auto"] = Field(
        default="auto", description="'auto', true or false"
    )
    never_seeded: Literal["lost", "pass"] = Field(default="lost", description="'lost' or 'pass'")
    row_rejected: Literal["mask", "pass"] = Field(default="mask", description="'mask' or 'pass'")
    agent_failed: Literal["mask", "pass"] = Field(default="mask", description="'mask' or 'pass'")
    accept_encodings: Annotated[tuple[Literal["gzip", "deflate"], ...], BeforeValidator(_words)] = (
        Field(default=(), description="a list of 'gzip' and 'deflate'")
    )
    reward_range: Annotated[
        tuple[_Number, _Number] | None, BeforeValidator(_ordered), AfterValidator(_ascending)
    ] = Field(default=None, description="a list of two numbers, the lower first, e.g. [0, 1]")
    owned_fields: Annotated[
        frozenset[_Text], BeforeValidator(_words), AfterValidator(_removable)
    ] = Field(
        default=frozenset(),
        description="a list of field names, but not 'response' or 'responses_create_params'",
    )
    policy_errors: Annotated[
        tuple[Annotated[_Text, _spelled(_QUALIFIED)], ...], BeforeValidator(_words)
    ] = Field(
        default=(),
        description="a list of exceptions with their module, e.g. 'builtins.ValueError'",
    )
    routes: Annotated[
        Mapping[RoutedBoundary, _Paths], AfterValidator(_one_boundary_each), PlainSerializer(dict)
    ] = Field(
        default_factory=lambda: MappingProxyType({}),
        description="seed, verify, close or run -> a list of paths that begin with '/', "
        "each path once, braces only around a parameter",
    )
    tools: Annotated[Literal["auto"] | tuple[_Path, ...], BeforeValidator(_tool_paths)] = Field(
        default="auto", description="'auto', 'none', or a list of paths that begin with '/'"
    )
    idempotent_verify: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="true or false"
    )
    store: _Text = Field(
        default="memory",
        repr=False,  # its address may hold a password
        description="'memory', 'sqlite:///<path>' or 'redis://<host>:<port>/<db>'",
    )
    on_store_down: Literal["annotate", "refuse"] = Field(
        default="annotate", description="'annotate' or 'refuse'"
    )
    session_ttl_s: _Number = Field(
        default=604_800.0, gt=0, le=31_536_000, description="seconds, more than 0, at most 31536000"
    )
    max_sessions: _Count = Field(
        default=1_000_000, ge=1, le=100_000_000, description="a whole number, 1 to 100000000"
    )
    coverage_log_every: _Count = Field(
        default=1000, ge=0, description="a whole number of verifies; 0 means never"
    )


class ServerSettings(ServerKeys):
    """Everything that is configured for one server, resolved; immutable.

    Attributes:
        dialect: How outcomes are spelled.
        mode: One of the dialect's ways to say them; ``None``: its default.
        deadline_s: How long a guarded call may take, in seconds.
        max_body_bytes: Largest request body of a guarded call.
        max_reply_bytes: Largest reply body that is read before it goes on.
        stateful: Whether the server keeps per-session state in its process; ``auto``: found out.
        never_seeded: On a stateful server, a session that nobody seeded here is lost, or passes.
        row_rejected: A 422 about the row's own fields is ``task_data_invalid``, or passes.
        agent_failed: A request whose response says ``failed`` is masked, or passes.
        accept_encodings: Content encodings that are decoded; all others get a 415.
        reward_range: Lowest and highest reward; one outside is ``verifier_error``.
        owned_fields: More top-level names that only a response may carry.
        policy_errors: Qualified names of exceptions that belong to the model's input: the
            server's own way to answer them stands.
        routes: Boundary -> paths, beside those that the dialect knows.
        tools: The paths of the tools that an agent calls; ``auto``: what the dialect takes for
            tools.
        idempotent_verify: A verify that is delivered again gets the first one's reply.
        store: Where sessions and replies are remembered.
        on_store_down: Where the session store gives no answer, a verify of a stateful server goes
            on, or is a failure that a retry may help.
        session_ttl_s: How long a session is remembered from its seed, in seconds; a check that
            finds its record lets that time start anew.
        max_sessions: How many sessions are remembered.
        coverage_log_every: Coverage is logged once per so many verifies; 0: never.
        policy: What is done about each kind of failure.
        breaker: When a mask rate raises the alarm.
    """

    policy: InstanceOf[Policy] = Policy.default()
    breaker: BreakerSettings = BreakerSettings()


class ServerOptions(TypedDict, total=False):
    """The keys of ``ServerSettings`` that Python code may give as keyword arguments."""

    deadline_s: float
    max_body_bytes: int
    max_reply_bytes: int
    stateful: Literal["auto"] | bool
    never_seeded: Literal["lost", "pass"]
    row_rejected: Literal["mask", "pass"]
    agent_failed: Literal["mask", "pass"]
    accept_encodings: Sequence[Literal["gzip", "deflate"]]
    reward_range: tuple[float, float] | None
    owned_fields: frozenset[str]
    policy_errors: Sequence[str]
    routes: Mapping[RoutedBoundary, Sequence[str]]
    tools: Literal["auto"] | Sequence[str]
    idempotent_verify: bool
    on_store_down: Literal["annotate", "refuse"]
    session_ttl_s: float
    max_sessions: int
    coverage_log_every: int

# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The exceptions of other packages, as data; imports none of them and reads no message.

A class is named by its top-level package and its own name, because private modules move
(``openai._exceptions``, ``aiohttp.client_exceptions``) and public names stay.

Wrappers that say nothing themselves (verifiers' ``TaskError``, an author's ``RuntimeError``)
have no row on purpose, so that their cause speaks.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from truezero.classify.rows import (
    BAD_ADDRESS,
    BROKE,
    CANCELLED,
    CLOCK,
    DENIED,
    LOCAL,
    MEMORY,
    MISUSE,
    PEER_DROP,
    PROVIDER,
    QUOTA,
    REMOTE,
    SLOW,
    UNREACHABLE,
    Row,
)
from truezero.classify.senses import Sense

_STANDARD: Final[Mapping[str, Row]] = {
    "asyncio.CancelledError": CANCELLED,
    "asyncio.IncompleteReadError": PEER_DROP,
    "concurrent.BrokenExecutor": BROKE,
    "http.BadStatusLine": PEER_DROP,
    "http.HTTPException": REMOTE,
    "http.IncompleteRead": PEER_DROP,
    "http.InvalidURL": BAD_ADDRESS,
    "http.RemoteDisconnected": PEER_DROP,
    "multiprocessing.TimeoutError": CLOCK,
    "socket.gaierror": UNREACHABLE,
    "socket.herror": UNREACHABLE,
    "ssl.SSLCertVerificationError": BAD_ADDRESS,
    "ssl.SSLEOFError": PEER_DROP,
    "ssl.SSLError": UNREACHABLE,
    "ssl.SSLZeroReturnError": PEER_DROP,
    "subprocess.CalledProcessError": Row(Sense.BROKE, exit_code="returncode"),
    "subprocess.TimeoutExpired": CLOCK,
    "urllib.HTTPError": Row(Sense.REMOTE, status=("code",), own_words=False),
    "urllib.URLError": Row(Sense.UNREACHABLE, inner=("reason",), coarse=True),
}

_MODEL_STATUS = Row(Sense.REMOTE, status=("status_code",), own_words=False)
_MODEL_CLIENT: Final[Mapping[str, Row]] = {
    "APIConnectionError": REMOTE,
    "APIError": REMOTE,
    "APIResponseValidationError": _MODEL_STATUS,
    "APIStatusError": _MODEL_STATUS,
    "AnthropicError": Row(Sense.REMOTE, transient=False),
    "OpenAIError": Row(Sense.REMOTE, transient=False),
    "ContentFilterFinishReasonError": Row(Sense.UNREADABLE),
    "LengthFinishReasonError": Row(Sense.UNREADABLE),
    "RetryableError": REMOTE,
    "WebSocketConnectionClosedError": REMOTE,
}

_REPLY_STATUS = Row(Sense.REMOTE, status=("response", "status_code"), own_words=False)
_HTTPX: Final[Mapping[str, Row]] = {
    "ConnectError": UNREACHABLE,
    "DecodingError": REMOTE,
    "HTTPStatusError": _REPLY_STATUS,
    "InvalidURL": BAD_ADDRESS,
    "LocalProtocolError": BAD_ADDRESS,
    "NetworkError": PEER_DROP,
    "PoolTimeout": LOCAL,
    "ProxyError": UNREACHABLE,
    "RemoteProtocolError": PEER_DROP,
    "SSEError": REMOTE,
    "TimeoutException": SLOW,
    "TooManyRedirects": Row(Sense.REMOTE, transient=False),
    "TransportError": UNREACHABLE,
    "UnsupportedProtocol": BAD_ADDRESS,
}

_CLIENTS: Final[Mapping[str, Row]] = {
    **{
        f"{package}.{name}": row
        for package in ("openai", "anthropic")
        for name, row in _MODEL_CLIENT.items()
    },
    **{f"{package}.{name}": row for package in ("httpx", "httpx2") for name, row in _HTTPX.items()},
    "aiohttp.ClientConnectionError": Row(Sense.UNREACHABLE, coarse=True),
    "aiohttp.ClientConnectionResetError": PEER_DROP,
    "aiohttp.ClientConnectorCertificateError": BAD_ADDRESS,
    "aiohttp.ClientConnectorError": UNREACHABLE,
    "aiohttp.ClientOSError": Row(Sense.PEER_DROP, coarse=True),
    "aiohttp.ClientPayloadError": PEER_DROP,
    "aiohttp.ClientResponseError": Row(Sense.REMOTE, status=("status",), own_words=False),
    "aiohttp.InvalidURL": BAD_ADDRESS,
    "aiohttp.NonHttpUrlClientError": BAD_ADDRESS,
    "aiohttp.ServerDisconnectedError": PEER_DROP,
    "aiohttp.ServerFingerprintMismatch": BAD_ADDRESS,
    "aiohttp.ServerTimeoutError": SLOW,
    "requests.ChunkedEncodingError": PEER_DROP,
    "requests.ConnectTimeout": SLOW,
    "requests.ConnectionError": Row(Sense.UNREACHABLE, inner=("args", "0"), coarse=True),
    "requests.ContentDecodingError": REMOTE,
    "requests.HTTPError": _REPLY_STATUS,
    "requests.InvalidHeader": BAD_ADDRESS,
    "requests.InvalidSchema": BAD_ADDRESS,
    "requests.InvalidURL": BAD_ADDRESS,
    "requests.MissingSchema": BAD_ADDRESS,
    "requests.RetryError": REMOTE,
    "requests.Timeout": SLOW,
    "requests.TooManyRedirects": Row(Sense.REMOTE, transient=False),
    "requests.URLRequired": BAD_ADDRESS,
    "urllib3.DecodeError": REMOTE,
    "urllib3.EmptyPoolError": LOCAL,
    "urllib3.FullPoolError": LOCAL,
    "urllib3.IncompleteRead": PEER_DROP,
    "urllib3.LocationValueError": BAD_ADDRESS,
    "urllib3.MaxRetryError": Row(Sense.UNREACHABLE, inner=("reason",), coarse=True),
    "urllib3.NewConnectionError": UNREACHABLE,
    "urllib3.ProtocolError": PEER_DROP,
    "urllib3.ProxyError": UNREACHABLE,
    "urllib3.ResponseError": REMOTE,
    "urllib3.SSLError": UNREACHABLE,
    "urllib3.TimeoutError": SLOW,
    "websockets.ConnectionClosed": PEER_DROP,
    "websockets.InvalidHandshake": UNREACHABLE,
    "websockets.InvalidStatus": _REPLY_STATUS,
    "websockets.InvalidURI": BAD_ADDRESS,
    "anyio.ConnectionFailed": Row(Sense.UNREACHABLE, coarse=True),
    "trio.Cancelled": CANCELLED,
    "trio.TooSlowError": CLOCK,
    # The future's own attribute, because its method would wait for an attempt without an end.
    "tenacity.RetryError": Row(Sense.BROKE, inner=("last_attempt", "_exception"), coarse=True),
    "tenacity.TryAgain": Row(Sense.BROKE, inner=("__context__",), coarse=True),
}

_BACKENDS: Final[Mapping[str, Row]] = {
    "docker.APIError": Row(Sense.PROVIDER, status=("response", "status_code")),
    "docker.ContainerError": Row(Sense.BROKE, exit_code="exit_status"),
    "docker.DockerException": PROVIDER,
    "docker.ImageNotFound": DENIED,
    "docker.NotFound": PROVIDER,  # a container that is gone: the next attempt gets its own
    "grpc.FutureTimeoutError": SLOW,
    "grpc.RpcError": Row(Sense.PROVIDER, coded=True),
    "kubernetes.ApiException": Row(Sense.PROVIDER, status=("status",)),
    "redis.AuthenticationError": DENIED,
    "redis.AuthorizationError": DENIED,
    "redis.BusyLoadingError": PROVIDER,
    "redis.ClusterDownError": PROVIDER,
    "redis.ConnectionError": Row(Sense.UNREACHABLE, coarse=True),
    "redis.MaxConnectionsError": LOCAL,
    "redis.NoPermissionError": DENIED,
    "redis.OutOfMemoryError": QUOTA,
    "redis.ReadOnlyError": PROVIDER,
    "redis.TimeoutError": SLOW,
    "ray.ActorUnschedulableError": PROVIDER,
    "ray.GetTimeoutError": CLOCK,
    "ray.LocalRayletDiedError": PROVIDER,
    "ray.NodeDiedError": PROVIDER,
    "ray.ObjectLostError": PROVIDER,
    "ray.ObjectStoreFullError": LOCAL,
    "ray.OutOfDiskError": LOCAL,
    "ray.OutOfMemoryError": MEMORY,
    "ray.PendingCallsLimitExceeded": QUOTA,
    "ray.RayActorError": PROVIDER,
    "ray.RaySystemError": PROVIDER,
    "ray.RayTaskError": Row(Sense.BROKE, inner=("cause",), coarse=True),
    "ray.RuntimeEnvSetupError": PROVIDER,
    "ray.TaskUnschedulableError": PROVIDER,
    "ray.WorkerCrashedError": PROVIDER,
}

_FRAMEWORKS: Final[Mapping[str, Row]] = {
    "fastapi.ValidationException": BROKE,
    "msgspec.MsgspecError": BROKE,
    "pydantic_core.ValidationError": BROKE,
    "starlette.HTTPException": Row(Sense.BROKE, status=("status_code",), reply=True),
    "nemo_gym.AgentSessionSetupError": Row(Sense.PROVIDER, inner=("error",), coarse=True),
    "nemo_gym.ConfigError": MISUSE,
    "nemo_gym.E2BTemplateBuildError": PROVIDER,
    "nemo_gym.JudgeError": REMOTE,
    "nemo_gym.PermanentEndpointError": Row(
        Sense.REMOTE, transient=False, status=("status",), own_words=False
    ),
    "nemo_gym.SandboxBackendUnreachableError": PROVIDER,
    "nemo_gym.SandboxCreateError": PROVIDER,
    "nemo_gym.SandboxPtyError": PROVIDER,
    "nemo_gym.TaskDataSchemaError": MISUSE,
    "openenv.ConcurrencyConfigurationError": MISUSE,
    "openenv.EnvironmentFactoryError": PROVIDER,
    "openenv.SessionCapacityError": QUOTA,
    "openenv.SessionCreationError": PROVIDER,
    "openenv.SessionNotFoundError": Row(Sense.SESSION),
    "verifiers.HarnessError": Row(Sense.AGENT),
    "verifiers.InterceptionError": UNREACHABLE,
    "verifiers.ProviderError": Row(Sense.REMOTE, status=("status_code",), own_words=False),
    "verifiers.SandboxError": PROVIDER,
    "verifiers.ToolsetError": PROVIDER,
}

FOREIGN_ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {**_STANDARD, **_CLIENTS, **_BACKENDS, **_FRAMEWORKS}
)
"""``"<top-level package>.<class name>"`` -> what the class says, subclasses included."""

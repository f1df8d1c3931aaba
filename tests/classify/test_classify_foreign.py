# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of exceptions that other packages raise, made from the real classes where they are here."""

import concurrent.futures.process
import errno
import http.client
import json
import socket
import ssl
import subprocess
import urllib.error

import aiohttp
import anthropic
import docker.errors
import fastapi.exceptions
import grpc
import grpc.aio
import httpx
import httpx2
import msgspec
import openai
import pydantic
import pytest
import redis.exceptions
import requests
import starlette.exceptions
import trio
import urllib3.exceptions
import yarl

from truezero.classify import classify_exception
from truezero.classify.table import FOREIGN_ROWS
from truezero.kinds import Boundary, Fault, Source, Stage

VERIFY, SEED, TOOL = Boundary.VERIFY, Boundary.SEED, Boundary.TOOL
URL = "https://user:pw@judge.example/v1?key=abc"


def foreign(module, name, *bases, **attributes):
    """Make an exception of a package that cannot be installed next to this one.

    Ray, NeMo Gym, verifiers, OpenEnv, tenacity and kubernetes are too large or need another
    Python; what counts is how their classes are named, and that was read from their source.
    """
    cls = type(
        name.rpartition(".")[2], bases or (Exception,), {"__module__": module, "__qualname__": name}
    )
    exc = cls("told by the class")
    vars(exc).update(attributes)
    return exc


def numbered(rows):
    """Test ids that stay apart: many rows have classes of one name."""
    excs = [row[0] if isinstance(row, tuple) else row for row in rows]
    return [f"{number}-{type(exc).__name__}" for number, exc in enumerate(excs)]


def kinds(exc):
    return [str(classify_exception(exc, boundary=boundary).kind) for boundary in (VERIFY, SEED)]


def model_error(package, name, status, headers=None):
    reply = httpx2.Response(status, headers=headers, request=httpx2.Request("POST", URL))
    return getattr(package, name)("You said: PROMPT", response=reply, body={"message": "PROMPT"})


def aiohttp_error(status, headers=None):
    url = yarl.URL(URL)
    info = aiohttp.RequestInfo(url, "POST", headers or {}, url)
    return aiohttp.ClientResponseError(info, (), status=status, message="PROMPT", headers=headers)


def httpx_error(status, headers=None):
    request = httpx.Request("POST", URL)
    return httpx.HTTPStatusError(
        "PROMPT", request=request, response=httpx.Response(status, headers=headers, request=request)
    )


def requests_error(status, headers=None):
    reply = requests.Response()
    reply.status_code, reply.url = status, URL
    reply.headers.update(headers or {})
    return requests.HTTPError("PROMPT", response=reply)


STATUS_MAKERS = {
    "openai": lambda status, headers=None: model_error(openai, "APIStatusError", status, headers),
    "anthropic": lambda status, headers=None: model_error(
        anthropic, "APIStatusError", status, headers
    ),
    "aiohttp": aiohttp_error,
    "httpx": httpx_error,
    "requests": requests_error,
}


@pytest.mark.parametrize("make", STATUS_MAKERS.values(), ids=STATUS_MAKERS)
@pytest.mark.parametrize(
    ("status", "transient"),
    [(400, False), (401, False), (403, False), (404, False), (422, False),
     (408, True), (409, True), (425, True), (429, True), (500, True), (503, True), (529, True)],
)  # fmt: skip
def test_an_error_status_at_verify_is_the_judges(make, status, transient):
    """A client that raises a status at verify means the judge; the status says if a retry helps."""
    failure = classify_exception(make(status), boundary=VERIFY)
    assert (failure.kind, failure.fault) == ("judge_failed", Fault.ENVIRONMENT)
    assert failure.transient is transient
    assert f"HTTP {status} from judge.example: " in failure.reason
    assert "PROMPT" not in failure.reason
    assert "abc" not in failure.reason
    assert "pw" not in failure.reason  # case B01
    assert "ValidationError" not in failure.reason  # case B02


@pytest.mark.parametrize("make", STATUS_MAKERS.values(), ids=STATUS_MAKERS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "provider_unavailable"),
        (429, "provider_quota_exhausted"),
        (503, "provider_unavailable"),
    ],
)
@pytest.mark.parametrize("boundary", [SEED, TOOL, Boundary.CLOSE, Boundary.RUN])
def test_an_error_status_elsewhere_is_a_providers(make, status, kind, boundary):
    """The same exception outside verify speaks of whoever provides the environment."""
    failure = classify_exception(make(status), boundary=boundary)
    assert failure.kind == kind
    assert failure.transient is (status != 401)


@pytest.mark.parametrize("make", STATUS_MAKERS.values(), ids=STATUS_MAKERS)
@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("1e99", 86400.0), ("soon", None), ("nan", None),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("Fri, 31 Dec 9999 23:59:59 GMT", 86400.0)],
)  # fmt: skip
def test_a_retry_after_is_kept_in_bounds(make, value, seconds):
    """A wait is read from the headers, as seconds or as a date, and is finite."""
    failure = classify_exception(make(429, {"Retry-After": value}), boundary=VERIFY)
    assert failure.retry_after_s == seconds


MODELS = [
    *[(cls(request=httpx2.Request("POST", URL)), True)
      for package in (openai, anthropic) for cls in (package.APIConnectionError, package.APITimeoutError)],
    (model_error(openai, "RateLimitError", 429), True),
    (model_error(anthropic, "OverloadedError", 529), True),
    (model_error(openai, "AuthenticationError", 401), False),
    (openai.OpenAIError("The api_key client option must be set"), False),
    (foreign("litellm.exceptions", "RateLimitError", openai.OpenAIError), False),
]  # fmt: skip


@pytest.mark.parametrize(("exc", "transient"), MODELS, ids=numbered(MODELS))
def test_a_model_client_speaks_of_the_judge(exc, transient):
    """Whatever a model API's client raises at verify is a failed judge, subclasses included."""
    failure = classify_exception(exc, boundary=VERIFY)
    assert (failure.kind, failure.transient) == ("judge_failed", transient)
    assert classify_exception(exc, boundary=SEED).kind.startswith("provider_")


def os_error(number):
    return OSError(number, "said the kernel")


def grpc_error(code):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="x")


def invalid():
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(int).validate_python("x")
    return caught.value


def docker_error(name, status):
    reply = requests.Response()
    reply.status_code, reply.url = status, "http://localhost/containers"
    return getattr(docker.errors, name)("said docker", response=reply)


REQUEST = httpx.Request("GET", "http://h/")
EVERYWHERE = [
    (ConnectionRefusedError(), "transport_unreachable"),
    (ConnectionError(), "transport_unreachable"),
    (ConnectionResetError(), "transport_peer_drop"),
    (ConnectionAbortedError(), "transport_peer_drop"),
    (BrokenPipeError(), "transport_peer_drop"),
    (socket.gaierror(-2, "unknown"), "transport_unreachable"),
    (ssl.SSLEOFError(8, "eof"), "transport_peer_drop"),
    (http.client.IncompleteRead(b""), "transport_peer_drop"),
    (http.client.RemoteDisconnected(""), "transport_peer_drop"),
    (urllib.error.URLError(ConnectionResetError()), "transport_peer_drop"),
    (urllib.error.URLError("unknown"), "transport_unreachable"),
    (os_error(errno.EMFILE), "transport_local_resource"),
    (os_error(errno.ENOSPC), "transport_local_resource"),
    (os_error(errno.EADDRNOTAVAIL), "transport_local_resource"),
    (os_error(errno.EHOSTUNREACH), "transport_unreachable"),
    (os_error(errno.ETIMEDOUT), "transport_timeout"),
    (aiohttp.ServerDisconnectedError(), "transport_peer_drop"),
    (aiohttp.ClientPayloadError(), "transport_peer_drop"),
    (aiohttp.ServerTimeoutError(), "transport_timeout"),
    (aiohttp.ConnectionTimeoutError(), "transport_timeout"),
    (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), "transport_peer_drop"),
    (aiohttp.ClientOSError(errno.EMFILE, "too many"), "transport_local_resource"),
    (httpx.ConnectError("x", request=REQUEST), "transport_unreachable"),
    (httpx.ReadError("x", request=REQUEST), "transport_peer_drop"),
    (httpx.RemoteProtocolError("x", request=REQUEST), "transport_peer_drop"),
    (httpx.ReadTimeout("x", request=REQUEST), "transport_timeout"),
    (httpx.PoolTimeout("x", request=REQUEST), "transport_local_resource"),
    (httpx2.ConnectTimeout("x"), "transport_timeout"),
    (requests.ReadTimeout(), "transport_timeout"),
    (requests.ConnectTimeout(), "transport_timeout"),
    (requests.ConnectionError(), "transport_unreachable"),
    (requests.ConnectionError(urllib3.exceptions.ProtocolError("x", ConnectionResetError())), "transport_peer_drop"),
    (requests.exceptions.ChunkedEncodingError(), "transport_peer_drop"),
    (urllib3.exceptions.MaxRetryError(None, "/", None), "transport_unreachable"),
    (urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.ReadTimeoutError(None, "/", "x")), "transport_timeout"),
    (redis.exceptions.ConnectionError(), "transport_unreachable"),
    (redis.exceptions.TimeoutError(), "transport_timeout"),
    (redis.exceptions.OutOfMemoryError(), "provider_quota_exhausted"),
    (redis.exceptions.BusyLoadingError(), "provider_unavailable"),
    (docker_error("APIError", 500), "provider_unavailable"),
    (docker_error("APIError", 429), "provider_quota_exhausted"),
    (docker_error("NotFound", 404), "provider_unavailable"),
    (docker.errors.DockerException("no daemon"), "provider_unavailable"),
    (docker.errors.ContainerError("c", 137, "cmd", "image", "err"), "provider_oom_killed"),
    (subprocess.CalledProcessError(-9, "x"), "provider_oom_killed"),
    (subprocess.CalledProcessError(137, "x"), "provider_oom_killed"),
    (grpc_error(grpc.StatusCode.UNAVAILABLE), "transport_unreachable"),
    (grpc_error(grpc.StatusCode.DEADLINE_EXCEEDED), "transport_timeout"),
    (grpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED), "provider_quota_exhausted"),
    (grpc_error(grpc.StatusCode.INTERNAL), "provider_unavailable"),
    (grpc.RpcError(), "provider_unavailable"),
    (foreign("ray.exceptions", "OutOfMemoryError"), "provider_oom_killed"),
    (foreign("ray.exceptions", "WorkerCrashedError"), "provider_unavailable"),
    (foreign("ray.exceptions", "ActorDiedError", type("RayActorError", (Exception,), {"__module__": "ray.exceptions"})), "provider_unavailable"),
    (foreign("ray.exceptions", "RayTaskError(X)", type("RayTaskError", (Exception,), {"__module__": "ray.exceptions"}), cause=ConnectionResetError()), "transport_peer_drop"),
    (foreign("nemo_gym.sandbox.providers.base", "SandboxCreateError", RuntimeError), "provider_unavailable"),
    (foreign("nemo_gym.sandbox.providers.base", "SandboxPtyError", RuntimeError), "provider_unavailable"),
    (foreign("nemo_gym.base_responses_api_agent", "AgentSessionSetupError", error=ConnectionRefusedError()), "transport_unreachable"),
    (foreign("openenv.core.env_server.exceptions", "SessionCapacityError"), "provider_quota_exhausted"),
    (foreign("openenv.core.env_server.exceptions", "SessionNotFoundError"), "session_lost"),
    (foreign("openenv.core.env_server.exceptions", "SessionCreationError"), "provider_unavailable"),
    (foreign("openenv.core.env_server.exceptions", "EnvironmentFactoryError"), "provider_unavailable"),
    (foreign("verifiers.v1.errors", "SandboxError"), "provider_unavailable"),
    (foreign("verifiers.v1.errors", "ToolsetError"), "provider_unavailable"),
    (foreign("verifiers.v1.errors", "TunnelError", type("InterceptionError", (Exception,), {"__module__": "verifiers.v1.errors"})), "transport_unreachable"),
    (foreign("tenacity", "RetryError", last_attempt=type("Future", (), {"_exception": ConnectionResetError()})()), "transport_peer_drop"),
    (foreign("kubernetes.client.exceptions", "ApiException", status=429), "provider_quota_exhausted"),
    (trio.Cancelled._create(source="explicit"), "cancelled"),
]  # fmt: skip


@pytest.mark.parametrize(("exc", "kind"), EVERYWHERE, ids=numbered(EVERYWHERE))
def test_a_broken_connection_or_provider_is_one_everywhere(exc, kind):
    """What broke between two processes, or at a provider, has the same kind at each boundary."""
    for boundary in Boundary:
        assert classify_exception(exc, boundary=boundary).kind == kind


BY_BOUNDARY = [
    (TimeoutError(), "verifier_timeout", "transport_timeout"),
    (subprocess.TimeoutExpired("x", 1), "verifier_timeout", "transport_timeout"),
    (trio.TooSlowError(), "verifier_timeout", "transport_timeout"),
    (foreign("ray.exceptions", "GetTimeoutError"), "verifier_timeout", "transport_timeout"),
    (MemoryError(), "verifier_error", "provider_unavailable"),
    (os_error(errno.ENOMEM), "verifier_error", "provider_unavailable"),
    (FileNotFoundError(2, "x"), "verifier_error", "provider_unavailable"),
    (concurrent.futures.process.BrokenProcessPool(), "verifier_error", "provider_unavailable"),
    (subprocess.CalledProcessError(-11, "x"), "verifier_error", "provider_unavailable"),
    (subprocess.CalledProcessError(1, "x"), "verifier_error", "provider_unavailable"),
    (invalid(), "verifier_error", "provider_unavailable"),
    (msgspec.ValidationError(), "verifier_error", "provider_unavailable"),
    (fastapi.exceptions.ResponseValidationError([]), "verifier_error", "provider_unavailable"),
    (json.JSONDecodeError("x", "y", 0), "verifier_error", "provider_unavailable"),
    (KeyError("expected_answer"), "verifier_error", "provider_unavailable"),
    (urllib3.exceptions.ResponseError("too many 503"), "judge_failed", "provider_unavailable"),
    (requests.exceptions.RetryError(), "judge_failed", "provider_unavailable"),
    (openai.ContentFilterFinishReasonError(), "judge_unparseable", "provider_unavailable"),
    (foreign("nemo_gym.judge", "JudgeError"), "judge_failed", "provider_unavailable"),
    (foreign("verifiers.v1.errors", "ProviderError", status_code=502), "judge_failed", "provider_unavailable"),
    (foreign("verifiers.v1.errors", "HarnessError"), "verifier_error", "provider_unavailable"),
    (foreign("verifiers.v1.errors", "TaskError"), "verifier_error", "provider_unavailable"),
]  # fmt: skip


@pytest.mark.parametrize(("exc", "verify", "seed"), BY_BOUNDARY, ids=numbered(BY_BOUNDARY))
def test_the_boundary_says_whose_code_it_was(exc, verify, seed):
    """What the guarded code did itself is the verifier's at verify and the provider's at seed."""
    assert kinds(exc) == [verify, seed]  # case L03


def test_a_graders_clock_is_not_the_agents():
    """A grader that runs out of its own time is nobody's agent timeout, and of unknown fault."""
    failure = classify_exception(TimeoutError(), boundary=VERIFY)
    assert (failure.kind, failure.fault) == ("verifier_timeout", Fault.UNKNOWN)  # case A05
    assert failure.stage is Stage.VERIFICATION
    assert failure.source is Source.EXCEPTION


def test_a_killed_child_is_of_unknown_fault():
    """A child killed by the memory limit may be the model's program."""
    failure = classify_exception(subprocess.CalledProcessError(-9, "x"), boundary=VERIFY)
    assert failure.fault is Fault.UNKNOWN


MISTAKES = [aiohttp.InvalidURL("x"), httpx.InvalidURL("x"), httpx.UnsupportedProtocol("x"), requests.exceptions.MissingSchema(),
     requests.exceptions.InvalidURL(), urllib3.exceptions.LocationParseError("x"), httpx.LocalProtocolError("x"),
     ssl.SSLCertVerificationError(1, "x"), redis.exceptions.AuthenticationError(), docker_error("ImageNotFound", 404),
     grpc_error(grpc.StatusCode.UNAUTHENTICATED), foreign("nemo_gym.openai_utils", "PermanentEndpointError", status=429),
     foreign("nemo_gym.task_data", "TaskDataSchemaError")]  # fmt: skip


@pytest.mark.parametrize("exc", MISTAKES, ids=numbered(MISTAKES))
def test_a_mistake_in_the_setup_is_not_transient(exc):
    """A bad address, key or image stays bad: trying again cannot help."""
    assert not classify_exception(exc, boundary=VERIFY).transient


@pytest.mark.parametrize(
    "make",
    [starlette.exceptions.HTTPException, fastapi.exceptions.HTTPException],
    ids=["starlette", "fastapi"],
)
@pytest.mark.parametrize(
    ("status", "kind", "transient"),
    [(404, "verifier_error", False), (410, "verifier_error", False), (429, "provider_quota_exhausted", True),
     (503, "provider_unavailable", True), (500, "verifier_error", True), (304, "verifier_error", True)],
)  # fmt: skip
def test_a_raised_reply_is_read_as_the_reply(make, status, kind, transient):
    """An ``HTTPException`` means what its status means, and keeps its ``Retry-After``."""
    exc = make(status, "unknown session", headers={"Retry-After": "3"})
    failure = classify_exception(exc, boundary=VERIFY)
    assert (failure.kind, failure.transient, failure.source) == (kind, transient, Source.EXCEPTION)
    assert failure.retry_after_s == (None if status == 304 else 3.0)
    assert "unknown session" in failure.reason  # case L04


OOM = "Sandbox was OOM-killed. exit code 137, HTTP 429, judge_failed"


UNPROVEN = [
        (foreign("nemo_gym.sandbox.providers.opensandbox.provider", "SandboxBackendUnreachableError"), "provider_unavailable"),
        (RuntimeError(OOM), "verifier_error"),
        (foreign("__main__", "OutOfMemoryError"), "verifier_error"),
        (foreign("solution", "openai.APIConnectionError"), "verifier_error"),
        (foreign("openai_evil", "APIConnectionError"), "verifier_error"),
        (foreign("builtins", "TimeoutError"), "verifier_error"),
        (foreign("builtins", "MemoryError", status_code=429, returncode=-9, code=lambda: None), "verifier_error"),
    ]  # fmt: skip


@pytest.mark.parametrize(("exc", "kind"), UNPROVEN, ids=numbered(UNPROVEN))
def test_neither_text_nor_a_name_alone_selects_a_kind(exc, kind):
    """A message, and a class of any name that a model could write, prove nothing."""
    exc.args = (OOM,)
    assert classify_exception(exc, boundary=VERIFY).kind == kind  # case N04 D06


def test_a_class_made_by_exec_is_not_a_builtin():
    """Code run by ``exec`` makes classes whose module says "builtins"; they are not builtins."""
    space: dict[str, object] = {}
    exec("class TimeoutError(Exception): pass\nexc = TimeoutError()", space)  # noqa: S102 -- the model's code
    assert type(space["exc"]).__module__ == "builtins"
    assert classify_exception(space["exc"], boundary=VERIFY).kind == "verifier_error"  # case D06


INSTALLED = {"openai": openai, "anthropic": anthropic, "httpx": httpx, "httpx2": httpx2, "aiohttp": aiohttp,
             "requests": requests.exceptions, "urllib3": urllib3.exceptions, "docker": docker.errors,
             "redis": redis.exceptions, "ssl": ssl, "http": http.client, "subprocess": subprocess}  # fmt: skip
ONE_SIDED = {"openai.AnthropicError", "openai.RetryableError", "anthropic.OpenAIError", "httpx.SSEError",
             *(f"anthropic.{name}" for name in ("ContentFilterFinishReasonError", "LengthFinishReasonError", "WebSocketConnectionClosedError"))}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [row for row in FOREIGN_ROWS if row.partition(".")[0] in INSTALLED and row not in ONE_SIDED],
)
def test_each_row_names_a_class_that_exists(row):
    """A row of an installed package names a class that it has, under the package it says it is in."""
    package, _, name = row.partition(".")
    cls = getattr(INSTALLED[package], name)
    assert issubclass(cls, BaseException)
    assert (cls.__module__.partition(".")[0], cls.__name__) == (package, name)

# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How each dialect spells a failure, in each of its modes."""

import json

import pytest
from asgi_driver import ask
from legacy_apps import fastapi_server
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from truezero import (
    Boundary,
    ConfigurationError,
    Failure,
    FailureKind,
    Masked,
    ProviderQuotaError,
    Retryable,
    Source,
    Stage,
    wrap,
)
from truezero.kinds import BARE_ON_THE_WIRE, is_namespaced
from truezero.wire.dialect import Asked, Dialect
from truezero.wire.dialects import dialect_of, mode_of
from truezero.wire.nemo_gym import NemoGymDialect
from truezero.wire.plain import PlainDialect

ROW = {"responses_create_params": {"input": []}, "response": {"id": "r"}, "expected": "4"}
GRADED = [Boundary.VERIFY, Boundary.RUN]
UNGRADED = [Boundary.SEED, Boundary.TOOL, Boundary.CLOSE]
JSON_TYPE = (b"content-type", b"application/json")


def failure(kind="judge_failed", reason="HTTP 429", *, retry_after_s=None):
    return Failure(kind, reason, stage=Stage.VERIFICATION, retry_after_s=retry_after_s)


def asked(body=ROW, *, path="/verify", boundary=Boundary.VERIFY, server="mcqa", status=None):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return Asked(server, boundary, path, data, status)


def gym(outcome, request, *, mode="mask"):
    return NemoGymDialect().encode(outcome, request, mode=mode)


@pytest.mark.parametrize("outcome", [Masked, Retryable])
@pytest.mark.parametrize("boundary", GRADED)
def test_mask_mode_gives_a_row_that_every_path_leaves_out(outcome, boundary):
    """A 200 with the caller's own objects, the placeholder 0.0, and the mask in both places."""
    # case D01, N01
    reply = gym(outcome(failure(retry_after_s=3)), asked(boundary=boundary))
    assert (reply.status, reply.headers) == (200, (JSON_TYPE,))
    assert json.loads(reply.body) == {
        **ROW,
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": "judge_failed",
        "failure_reason": "HTTP 429",
        "instance_config": {"mask_sample": True},
    }
    assert reply.body.startswith(json.dumps(ROW).encode()[:-1])
    assert b'"reward":0.0' in reply.body


@pytest.mark.parametrize(
    ("outcome", "mode"), [(Masked, "mask"), (Masked, "sidecar"), (Retryable, "mask")]
)
@pytest.mark.parametrize("path", ["/verify", "/step"])
def test_a_mask_brings_no_number_and_no_reserved_key(outcome, mode, path):
    """Nothing at the top level but the reward is a number, and no ``_ng_*`` key is there."""
    # case L09
    row = json.loads(gym(outcome(failure(retry_after_s=3)), asked(path=path), mode=mode).body)
    added = {name: value for name, value in row.items() if name not in ROW}
    numbers = {n for n, v in added.items() if isinstance(v, int | float) and type(v) is not bool}
    assert numbers <= {"reward"}
    assert not [name for name in row if name.startswith("_ng_")]


@pytest.mark.parametrize("path", ["/verify", "/step"])
def test_a_sidecar_files_what_may_be_tried_again_apart(path):
    """In sidecar mode a retryable failure is the masked row and ``_ng_failure_class``, no more."""
    # case L09
    masked = json.loads(gym(Retryable(failure()), asked(path=path)).body)
    sidecar = json.loads(gym(Retryable(failure()), asked(path=path), mode="sidecar").body)
    assert sidecar == {**masked, "_ng_failure_class": "judge_failed"}
    terminal = gym(Masked(failure()), asked(path=path), mode="sidecar")
    assert terminal == gym(Masked(failure()), asked(path=path))


@pytest.mark.parametrize("outcome", [Masked, Retryable])
def test_a_step_has_no_placeholder(outcome):
    """Who adds up the rewards of steps and knows no mask gets null, never an honest-looking 0."""
    # case D08
    row = json.loads(gym(outcome(failure()), asked(path="/step")).body)
    assert row == {
        **ROW,
        "reward": None,
        "observation": None,
        "terminated": False,
        "truncated": True,
        "mask_sample": True,
        "failure_kind": "judge_failed",
        "failure_reason": "HTTP 429",
        "instance_config": {"mask_sample": True},
    }


@pytest.mark.parametrize("path", ["/verify", "/step"])
@pytest.mark.parametrize(("outcome", "status"), [(Retryable, 503), (Masked, 424)])
def test_http_mode_answers_an_error_with_a_typed_body(outcome, status, path):
    """503 where a retry may help and 424 where it cannot; no reward, and nothing is echoed."""
    # case C01
    reply = gym(outcome(failure()), asked(path=path), mode="http")
    assert (reply.status, reply.headers) == (status, (JSON_TYPE,))
    assert json.loads(reply.body) == {
        "failure_kind": "judge_failed",
        "failure_reason": "HTTP 429",
        "mask_sample": True,
        "stage": "verification",
        "terminal": outcome is Masked,
    }


@pytest.mark.parametrize(
    ("server_said", "status"), [(None, 503), (500, 503), (429, 429), (503, 503), (504, 503)]
)
@pytest.mark.parametrize("dialect", [NemoGymDialect(), PlainDialect()], ids=["nemo_gym", "plain"])
def test_a_busy_server_keeps_its_status(dialect, server_said, status):
    """A caller that knows a server's own 429 or 503 goes on knowing it; a terminal one is 424."""
    # case L04
    mode = dialect.modes[-1]
    request = asked(status=server_said)
    assert dialect.encode(Retryable(failure()), request, mode=mode).status == status
    assert dialect.encode(Masked(failure()), request, mode=mode).status == 424


@pytest.mark.parametrize(
    ("seconds", "header"),
    [(None, None), (7, b"7"), (0.2, b"1"), (0, b"0"), (-3, b"0"), (float("inf"), None)],
)
@pytest.mark.parametrize("dialect", [NemoGymDialect(), PlainDialect()], ids=["nemo_gym", "plain"])
def test_a_known_wait_is_told_in_whole_seconds(dialect, seconds, header):
    """Retry-After is rounded up, never negative, and only where a retry may help."""
    # case E10, L04
    mode = dialect.modes[-1]
    told = dialect.encode(Retryable(failure(retry_after_s=seconds)), asked(), mode=mode)
    assert dict(told.headers).get(b"retry-after") == header
    terminal = dialect.encode(Masked(failure(retry_after_s=seconds)), asked(), mode=mode)
    assert b"retry-after" not in dict(terminal.headers)


@pytest.mark.parametrize("mode", ["mask", "sidecar", "http"])
@pytest.mark.parametrize("boundary", UNGRADED)
def test_a_call_without_a_row_fails_by_its_status(boundary, mode):
    """A seed, tool or close has no reward to mask: an error status in every mode."""
    # case C08, E10
    reply = gym(Retryable(failure()), asked(boundary=boundary, path="/x"), mode=mode)
    assert reply.status == 503
    assert "reward" not in json.loads(reply.body)


@pytest.mark.parametrize("mode", ["mask", "sidecar"])
@pytest.mark.parametrize("body", [None, b"", b"[1]", b"null", b"{", b"\xff"])
def test_what_cannot_be_echoed_fails_by_its_status(body, mode):
    """Without a request that is an object no row is made up."""
    # case N01
    reply = gym(Masked(failure()), asked(body), mode=mode)
    assert reply.status == 424
    assert "reward" not in json.loads(reply.body)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"mask_sample": False, "keep": 1}, {"keep": 1, "mask_sample": True}),
        ({"keep": 1}, {"keep": 1, "mask_sample": True}),
        ({}, {"mask_sample": True}),
        ([1, {"mask_sample": False}], [1, {"mask_sample": False}]),
        ("mask_sample", "mask_sample"),
        (7, 7),
        (None, {"mask_sample": True}),
        (..., {"mask_sample": True}),
    ],
    ids=["forged", "object", "empty", "list", "string", "number", "null", "absent"],
)
@pytest.mark.parametrize("path", ["/verify", "/step"])
def test_the_mask_is_merged_into_what_is_there(given, sent, path):
    """An object keeps its members, null and absence make one, and anything else is not touched."""
    # case D02
    row = dict(ROW) if given is ... else {**ROW, "instance_config": given}
    reply = gym(Masked(failure()), asked(row, path=path))
    assert json.loads(reply.body)["instance_config"] == sent
    assert json.loads(reply.body)["mask_sample"] is True


@pytest.mark.parametrize("forged", [True, False])
@pytest.mark.parametrize("fails", [True, False])
async def test_a_forged_nested_mask_never_comes_back(forged, fails):
    """The caller's ``instance_config.mask_sample`` is stripped; only a failure puts one there."""
    # case D02

    async def score(body):
        if fails:
            raise ProviderQuotaError("full")
        return 1.0

    body = {**ROW, "instance_config": {"mask_sample": forged, "keep": 1}}
    got = (await ask(wrap(fastapi_server(score), server="mcqa"), body=body)).json
    assert got["instance_config"] == ({"keep": 1, "mask_sample": True} if fails else {"keep": 1})
    assert got.get("mask_sample", False) is fails


@pytest.mark.parametrize("mode", ["mask", "sidecar", "http"])
@pytest.mark.parametrize("kind", sorted(FailureKind))
def test_kinds_outside_the_registry_are_namespaced(kind, mode):
    """What a consumer's registry knows goes out bare, all else as ``<server>:<kind>``."""
    row = json.loads(gym(Retryable(failure(kind)), asked(server="My Server-2"), mode=mode).body)
    expected = str(kind) if kind in BARE_ON_THE_WIRE else f"my_server_2:{kind}"
    assert row["failure_kind"] == expected
    assert row.get("_ng_failure_class", expected) == expected
    assert kind in BARE_ON_THE_WIRE or is_namespaced(row["failure_kind"])


def test_a_kind_with_a_namespace_keeps_it():
    """A server's own kind goes out as it is."""
    for mode in NemoGymDialect.modes:
        row = json.loads(gym(Masked(failure("other:own_kind")), asked(), mode=mode).body)
        assert row["failure_kind"] == "other:own_kind"


@pytest.mark.parametrize("reason", ["a\ud800b", 'q"uo\\te\n', "\x00", "é" * 2000])
@pytest.mark.parametrize("dialect", [NemoGymDialect(), PlainDialect()], ids=["nemo_gym", "plain"])
def test_any_reason_makes_strict_json(dialect, reason):
    """Whatever a reason holds, the reply parses as strict JSON in UTF-8."""
    # case N02
    cleaned = Failure.of("judge_failed", reason, stage=Stage.VERIFICATION, source=Source.EXCEPTION)
    for mode in dialect.modes:
        body = dialect.encode(Masked(cleaned), asked(), mode=mode).body
        assert json.loads(body.decode())["failure_reason"] == cleaned.reason


@pytest.mark.parametrize(
    ("outcome", "status", "retryable"), [(Retryable, 503, True), (Masked, 424, False)]
)
@pytest.mark.parametrize("boundary", list(Boundary))
def test_plain_is_a_problem_detail(outcome, status, retryable, boundary):
    """The plain dialect answers RFC 9457 problem details at every boundary, with no reward."""
    found = failure("my:task_data_invalid", "no gold answer", retry_after_s=2)
    reply = PlainDialect().encode(outcome(found), asked(boundary=boundary), mode="problem")
    assert reply.status == status
    assert reply.headers[0] == (b"content-type", b"application/problem+json")
    assert json.loads(reply.body) == {
        "type": "urn:truezero:failure:my:task_data_invalid",
        "title": "my: task data invalid",
        "status": status,
        "detail": "no gold answer",
        "failure_kind": "my:task_data_invalid",
        "failure_reason": "no gold answer",
        "fault": "environment",
        "stage": "verification",
        "mask_sample": True,
        "retryable": retryable,
    }


async def test_plain_guards_a_server_of_no_framework():
    """A wrapped server speaks problem details where ``dialect="plain"`` is given."""

    async def verify(request):
        return JSONResponse({"accuracy": 1.0})

    app = Starlette(routes=[Route("/verify", verify, methods=["POST"])])
    got = await ask(wrap(app, server="grader", dialect="plain"))
    assert got.status == 503
    assert got.header(b"content-type") == b"application/problem+json"
    assert got.json["failure_kind"] == "verifier_error"
    assert got.header(b"content-length") == str(len(got.body)).encode()


def test_dialects_are_found_by_name_or_taken_as_they_are():
    """A known name gives its dialect, and an object that is one is used itself."""
    own = PlainDialect()
    assert dialect_of("nemo_gym").name == "nemo_gym"
    assert dialect_of("plain").name == "plain"
    assert dialect_of(own) is own
    assert isinstance(own, Dialect)


def test_the_first_mode_is_the_default():
    """NeMo Gym's default is the mode that is safe on every path."""
    # case L09
    assert mode_of(NemoGymDialect(), None) == "mask"
    assert mode_of(PlainDialect(), None) == "problem"
    assert [mode_of(NemoGymDialect(), m) for m in NemoGymDialect.modes] == [
        "mask",
        "sidecar",
        "http",
    ]


@pytest.mark.parametrize(
    ("options", "where", "words"),
    [
        ({"dialect": "nemo"}, "dialect", ("unknown dialect 'nemo'", "'nemo_gym'", "'plain'")),
        ({"dialect": object()}, "dialect", ("object is no dialect",)),
        ({"mode": "masked"}, "mode", ("no mode 'masked'", "'mask'", "'sidecar'", "'http'")),
        ({"dialect": "plain", "mode": "mask"}, "mode", ("'plain'", "'problem'")),
    ],
    ids=["name", "object", "mode", "mode of another"],
)
def test_a_wrong_dialect_or_mode_is_refused_at_start(options, where, words):
    """The error names the key, what was given, and what there is."""
    with pytest.raises(ConfigurationError) as caught:
        wrap(fastapi_server(), server="mcqa", **options)
    assert caught.value.where.endswith(where)
    assert not [word for word in words if word not in str(caught.value)]

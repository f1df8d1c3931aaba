# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The laws of stripping, its bounds, and reading one string."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from truezero.fields import NEMO_GYM_OWNED, OwnedFields
from truezero.wire.inspector import Inspector
from truezero.wire.requests import inspect_request
from truezero.wire.scan import Scanner, needles_for, simd_find

SCANS = {"scan": simd_find(), "parse": None}


@pytest.fixture(params=SCANS)
def inspect(request):
    """The inspection with and without the SIMD search."""
    return Inspector(NEMO_GYM_OWNED, find=SCANS[request.param]).inspect


@pytest.mark.parametrize("find", SCANS.values(), ids=SCANS)
@pytest.mark.parametrize(
    "name", ["judge_score", "Score2", "a.b-c", "é", "a/b", 'q"uote', "x\ny", "\U0001f600"]
)
def test_a_servers_own_response_fields_go_as_well(find, name):
    """Any name can be owned, and is found however it is spelled."""
    # case L01
    inspect = Inspector(NEMO_GYM_OWNED.extended(frozenset({name})), find=find).inspect
    units = name.encode("utf-16-be")
    escaped = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    for spelled in (json.dumps(name), json.dumps(name, ensure_ascii=False), f'"{escaped}"'):
        found = inspect(b'{"x":1,' + spelled.encode() + b':2,"reward":3}')
        assert found.body == b'{"x":1}'
        assert found.removed == (name, "reward")


@pytest.mark.parametrize("find", SCANS.values(), ids=SCANS)
def test_nothing_owned_means_nothing_removed(find):
    """Without owned names a body passes."""
    inspect = Inspector(OwnedFields(frozenset()), find=find).inspect
    body = b'{"reward":1,"_ng_failure_x":2,"x":NaN}'
    assert inspect(body).body is body


def test_every_owned_name_contains_a_needle():
    """No plainly written owned name escapes the scan, and names share needles."""
    owned = NEMO_GYM_OWNED.extended(frozenset({"judge_reasoning", "judge_reasons"}))
    needles = needles_for(owned)
    for name in owned.names | set(owned.prefixes) | {"mask_sample"}:
        assert any(needle in b'"' + name.encode() + b'"' for needle in needles)
    assert len(needles_for(NEMO_GYM_OWNED)) == 4
    assert Scanner.scannable(owned)
    assert not Scanner.scannable(owned.extended(frozenset({"a/b"})))


def test_the_function_keeps_one_inspector_per_set_of_fields():
    """However many sets of fields there are, each is obeyed."""
    for number in range(200):
        owned = OwnedFields(frozenset({f"own_{number}"}))
        found = inspect_request(b'{"own_%d":1,"x":2}' % number, owned=owned)
        assert found.body == b'{"x":2}'
    assert inspect_request(b'{"reward":1}', owned=NEMO_GYM_OWNED).removed == ("reward",)


def test_a_large_clean_body_is_not_copied(inspect):
    """An 8 MB body without owned fields costs no second one."""
    body = b'{"x":"' + b"a b " * 2_000_000 + b'","y":1}'
    wrapped = b'{"response":' + body + b"}"
    tracemalloc.start()
    found = inspect(wrapped)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.body is wrapped
    assert peak < 200_000


def test_a_large_forged_body_is_copied_once(inspect):
    """Cutting a field out of an 8 MB body makes the new body and hardly more."""
    wrapped = b'{"reward":1,"response":{"x":"' + b"a b " * 2_000_000 + b'"}}'
    tracemalloc.start()
    found = inspect(wrapped)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.body == wrapped.replace(b'"reward":1,', b"")
    assert peak < 1.1 * len(wrapped)


JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.sampled_from(["reward", "mask_sample", "status"]), inner)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(
    st.text(max_size=6)
    | st.sampled_from([*sorted(NEMO_GYM_OWNED.names), "_ng_failure_x", "instance_config"]),
    JSON,
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(document=OBJECTS, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_stripping_is_idempotent_and_touches_nothing_else(document, ascii_only, indent):
    """Of any object exactly the owned members go, whichever way the body is read."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    body = text.encode("utf-8", "surrogatepass")
    expected = {name: value for name, value in document.items() if not NEMO_GYM_OWNED.owns(name)}
    config = expected.get("instance_config")
    if isinstance(config, dict):
        config = {name: value for name, value in config.items() if name != "mask_sample"}
        expected["instance_config"] = config
    for find in SCANS.values():
        found = Inspector(NEMO_GYM_OWNED, find=find).inspect(body)
        assert json.dumps(json.loads(found.body)) == json.dumps(json.loads(json.dumps(expected)))
        assert Inspector(NEMO_GYM_OWNED, find=find).inspect(found.body).body is found.body


@settings(max_examples=100, deadline=None)
@given(
    body=st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ rewad1', max_size=40).map(str.encode)
)
def test_no_bytes_raise(body):
    """Whatever the bytes, there is a finding, and it is the same with and without the scan."""
    parse, scan = (Inspector(NEMO_GYM_OWNED, find=find).inspect(body) for find in SCANS.values())
    assert parse == scan

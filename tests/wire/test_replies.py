# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as a verdict in a reply, and what a server says of its own failure."""

import json
import math

import pytest
from hypothesis import given, settings, strategies as st

from truezero.wire.replies import ReadReply, ReplyReader, Spoken, read_reply
from truezero.wire.scan import simd_find

READERS = {
    "tail": ReplyReader(find=simd_find(), small=0),
    "parse": ReplyReader(find=None),
    "default": ReplyReader(find=simd_find()),
}


@pytest.fixture(params=READERS)
def read(request):
    """Reading from the end, reading all, and the choice by size."""
    return READERS[request.param].read


@pytest.mark.parametrize(
    "front", ["", '"x":[1,{"reward":9}],', '"y":NaN,', '"z":"' + "a" * 5000 + '",']
)
@pytest.mark.parametrize(
    ("source", "reward"),
    [
        ("1.0", 1.0),
        ("0", 0.0),
        ("1", 1.0),
        ("-0.5", -0.5),
        ("1e-400", 0.0),
        ("1E2", 100.0),
        ("12345678901234567890123", 12345678901234567890123.0),
    ],
)
def test_a_finite_number_is_a_reward(read, front, source, reward):
    """Any finite JSON number at the top of the reply is the reward."""
    body = f'{{{front}"reward":{source},"a":[]}}'.encode()
    assert read(body) == ReadReply(reward, None, None)


def test_the_sign_of_zero_is_kept(read):
    """Minus zero is a reward and stays minus zero."""
    # case L07
    for front in (b"{", b'{"x":NaN,'):
        reward = read(front + b'"reward":-0.0}').reward
        assert reward == 0
        assert math.copysign(1, reward) == -1


@pytest.mark.parametrize(
    "front", ["", '"x":{"reward":1},', '"y":NaN,', '"z":"' + "a" * 5000 + '",']
)
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('"1.0"', "reward is a string"),
        ('"high"', "reward is a string"),
        ('"\\ud800"', "reward is a string"),
        ("[1]", "reward is an array"),
        ('{"a":1}', "reward is an object"),
        ("true", "reward is a bool"),
        ("false", "reward is a bool"),
        ("null", "reward is null"),
        ("1e400", "reward is not finite"),
        ("-1e400", "reward is not finite"),
        ("NaN", "reward is not finite"),
        ("Infinity", "reward is not finite"),
        ("-Infinity", "reward is not finite"),
        ("9" * 350, "reward is not finite"),
        ("9" * 6000, "reward is not finite"),
    ],
)
def test_anything_else_is_no_reward(read, front, source, problem):
    """A string, bool, null, array, object or number that is not finite is no verdict."""
    # case L07
    # case L05
    # case C03
    body = f'{{{front}"reward":{source}}}'.encode()
    assert read(body) == ReadReply(None, None, problem)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{}", "no reward field"),
        (b'{"x":1}', "no reward field"),
        (b'{"x":NaN}', "no reward field"),
        (b'{"x":{"reward":1}}', "no reward field"),
        (b'{"x":[{"a":2,"reward":1}]}', "no reward field"),
        (b'{"x":{"a":2,"reward":1},"y":3}', "no reward field"),
        (b'{"x":"\\"reward\\":1"}', "no reward field"),
        (b'{"x,\\"reward":1}', "no reward field"),
        (b'{"x\\\\,\\"reward": 1}', "no reward field"),
        (b'{"x":",\\"reward"}', "no reward field"),
        (b'{"x":"reward"}', "no reward field"),
        (b'{"Reward":1}', "no reward field"),
        (b"", "reply is not JSON"),
        (b"Internal Server Error", "reply is not JSON"),
        (b'{"reward":1', "reply is not JSON"),
        (b'{"reward":1}x', "reply is not JSON"),
        (b'{"x":1}{"reward":1}', "reply is not JSON"),
        (b'{"reward":01}', "reply is not JSON"),
        (b'{"reward":1,}', "reply is not JSON"),
        (b'\xff{"reward":1}', "reply is not JSON"),
        (b"[1]", "reply is not a JSON object"),
        (b'[{"reward":1}]', "reply is not a JSON object"),
        (b"1.0", "reply is not a JSON object"),
        (b'"reward"', "reply is not a JSON object"),
        (b"null", "reply is not a JSON object"),
        (b'{"x":' + b"[" * 100_000, "reply is nested too deeply"),
    ],
)
def test_a_reply_without_a_verdict_says_why(read, body, problem):
    """A nested reward, a text and a broken reply hold no verdict, and the reason is named."""
    assert read(body) == ReadReply(None, None, problem)


@pytest.mark.parametrize(
    ("body", "reward"),
    [
        (b'{"reward":0,"reward":1}', 1.0),
        (b'{"reward":1,"x":{"reward":0}}', 1.0),
        (b'{"x":{"reward":0},"reward":1}', 1.0),
        (b'{"rew\\u0061rd":1}', 1.0),
        (b'{"reward":0,"rew\\u0061rd":1}', 1.0),
        (b'{"rew\\u0061rd":0,"reward":1}', 1.0),
        (b'{"x":"\\\\","reward":1}', 1.0),
        (b'{"x":"\\\\\\"","reward":1}', 1.0),
        (b'{"x":"a,\\"","reward":1,"y":"\\\\"}', 1.0),
        (b'\xef\xbb\xbf{"reward":1}', 1.0),
        ('{"reward":1}'.encode("utf-16"), 1.0),
        (b' {\n    "reward" : 1\n}\n', 1.0),
        (b'{"x":[],\n                              "reward":1}', 1.0),
        (b'{"x":"\\u001b[0m","reward":1}', 1.0),
        (b'{"reward":1,"z":"' + b"a" * 200_000 + b'"}', 1.0),
        (b'{"z":"' + b"a" * 200_000 + b'","reward":1}', 1.0),
    ],
)
def test_the_last_top_level_reward_counts(read, body, reward):
    """Nested rewards, duplicates, spellings and encodings are read as a JSON reader does."""
    assert read(body) == ReadReply(reward, None, None)


@pytest.mark.parametrize("where", ["front", "back", "lenient", "far"])
@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ('"mask_sample":true', Spoken(True, None, None, None)),
        ('"mask_sample":1', Spoken(True, None, None, None)),
        ('"mask_sample":"True"', Spoken(True, None, None, None)),
        ('"m\\u0061sk_sample":true', Spoken(True, None, None, None)),
        ('"instance_config":{"mask_sample":true}', Spoken(True, None, None, None)),
        ('"instance_config":{"m\\u0061sk_sample":true}', Spoken(True, None, None, None)),
        ('"failure_kind":"judge_failed"', Spoken(False, "judge_failed", None, None)),
        (
            '"mask_sample":true,"failure_kind":"k","failure_reason":"r"',
            Spoken(True, "k", "r", None),
        ),
        ('"_ng_failure_class":"c"', Spoken(False, None, None, "c")),
        ('"_ng_f\\u0061ilure_class":"c"', Spoken(False, None, None, "c")),
    ],
)
def test_a_server_that_speaks_is_heard(read, said, spoken, where):
    """A mask, a kind or a class at the top is the server's own word, wherever it stands."""
    body = {
        "front": f'{{{said},"reward":0.5}}',
        "back": f'{{"reward":0.5,{said}}}',
        "lenient": f'{{"x":NaN,"reward":0.5,{said}}}',
        "far": f'{{{said},"x":"{"a" * 5000}","reward":0.5}}',
    }[where].encode()
    assert read(body) == ReadReply(0.5, spoken, None)


@pytest.mark.parametrize("where", ["front", "back", "lenient"])
@pytest.mark.parametrize(
    "said",
    [
        '"failure_reason":"a wrong answer"',
        '"mask_sample":false,"failure_kind":null,"failure_reason":null',
        '"mask_sample":null',
        '"mask_sample":0',
        '"mask_sample":"false"',
        '"mask_sample":[]',
        '"failure_kind":""',
        '"failure_kind":3',
        '"_ng_failure_class":null',
        '"_ng_failure_terminal":true',
        '"instance_config":{"mask_sample":false}',
        '"instance_config":{"keep":1}',
        '"instance_config":[1]',
        '"x":{"mask_sample":true,"failure_kind":"k"}',
        '"x":"\\"mask_sample\\":true"',
        '"mask_sample":true,"mask_sample":false',
    ],
)
def test_silence_is_not_speech(read, said, where):
    """A reason alone, empty fields, and words below the top say nothing of a failure."""
    body = {
        "front": f'{{{said},"reward":0.0}}',
        "back": f'{{"reward":0.0,{said}}}',
        "lenient": f'{{"x":NaN,"reward":0.0,{said}}}',
    }[where].encode()
    assert read(body) == ReadReply(0.0, None, None)


def test_a_mask_without_a_reward_is_heard(read):
    """A server may mask and give no number."""
    found = read(b'{"mask_sample":true,"failure_kind":"session_lost","reward":null}')
    assert found.spoken == Spoken(True, "session_lost", None, None)
    assert found.problem == "reward is null"


def test_the_function_reads_like_the_readers():
    """The module's function is the reader chosen at import."""
    assert read_reply(b'{"reward":1.5}') == ReadReply(1.5, None, None)


TEXTS = st.text(alphabet='reward"\\,{}[]: 01', max_size=12) | st.sampled_from(
    ["reward", ',"reward']
)
VALUES = st.recursive(
    st.none() | st.integers(-2, 2) | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(document=st.dictionaries(TEXTS, VALUES, max_size=4), compact=st.booleans())
def test_looking_at_the_end_never_disagrees(document, compact):
    """For any object, all readers agree with the standard library's reading."""
    separators = (",", ":") if compact else None
    body = json.dumps(document, separators=separators).encode()
    found = [reader.read(body) for reader in READERS.values()]
    assert found[0] == found[1] == found[2]
    reward = document.get("reward")
    is_number = isinstance(reward, int) and not isinstance(reward, bool)
    assert found[0].reward == (reward if is_number else None)


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=40) | TEXTS.map(str.encode))
def test_no_bytes_raise(body):
    """Whatever the bytes, reading them ends in a finding."""
    for reader in READERS.values():
        found = reader.read(body)
        assert (found.problem is None) == (found.reward is not None)

# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How a failure is written into the request's own bytes."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from truezero.wire.splice import echo_with
from truezero.wire.strict import is_strict, mended

FIELDS = {"reward": 0.0, "mask_sample": True}
TAIL = b'"reward":0.0,"mask_sample":true'
NEW_CONFIG = b'"instance_config":{"mask_sample":true}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", b"{" + TAIL + b"}"),
        (b" { } \n", b" { " + TAIL + b"}"),
        (b'{"x":1.10}', b'{"x":1.10,' + TAIL + b"}"),
        (b'{"x":"}" }\n', b'{"x":"}" ,' + TAIL + b"}"),
        (b'{"reward":1}', b"{" + TAIL + b"}"),
        (b'{"reward":1,"x":2}', b'{"x":2,' + TAIL + b"}"),
        (b'{"x":2,"reward":1,"reward":12}', b'{"x":2,' + TAIL + b"}"),
        (b'{"rew\\u0061rd":1,"x":2}', b'{"x":2,' + TAIL + b"}"),
        (b'{"x":{"reward":1}}', b'{"x":{"reward":1},' + TAIL + b"}"),
        (b'{"x":1,"x":12,"mask_sample":3}', b'{"x":1,"x":12,' + TAIL + b"}"),
        ('{"é":"\U0001f600\\u00e9"}'.encode(), '{"é":"\U0001f600\\u00e9",'.encode() + TAIL + b"}"),
        ('{"é":1,"é":12,"reward":3}'.encode(), '{"é":1,"é":12,'.encode() + TAIL + b"}"),
        (
            b'{"\\u00e9":1,"\\u00e9":12,"reward":3}',
            b'{"\\u00e9":1,"\\u00e9":12,' + TAIL + b"}",
        ),
        (b'{"instance_config":{"a":1}}', b'{"instance_config":{"a":1},' + TAIL + b"}"),
    ],
)
def test_fields_stand_behind_the_requests_own_members(body, expected):
    """The request's members keep their bytes and order; replaced ones are gone."""
    assert echo_with(body, fields=FIELDS, mask_nested=False) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", b"{" + TAIL + b"," + NEW_CONFIG + b"}"),
        (b'{"x":1}', b'{"x":1,' + TAIL + b"," + NEW_CONFIG + b"}"),
        (b'{"reward":1}', b"{" + TAIL + b"," + NEW_CONFIG + b"}"),
        (
            b'{"instance_config":{"keep":1.0},"x":1}',
            b'{"instance_config":{"keep":1.0,"mask_sample":true},"x":1,' + TAIL + b"}",
        ),
        (b'{"instance_config":{}}', b"{" + NEW_CONFIG + b"," + TAIL + b"}"),
        (
            b'{"instance_config": { } }',
            b'{"instance_config": { "mask_sample":true} ,' + TAIL + b"}",
        ),
        (b'{"instance_config":{"mask_sample":false}}', b"{" + NEW_CONFIG + b"," + TAIL + b"}"),
        (
            b'{"instance_config":{"mask_sample":1,"mask_sample":12,"k":"\\""}}',
            b'{"instance_config":{"k":"\\"","mask_sample":true},' + TAIL + b"}",
        ),
        (
            b'{"instance_config":{"a":1},"instance_config":{"a":12}}',
            b'{"instance_config":{"a":1,"mask_sample":true},'
            b'"instance_config":{"a":12,"mask_sample":true},' + TAIL + b"}",
        ),
        (b'{"instance_config":null}', b"{" + NEW_CONFIG + b"," + TAIL + b"}"),
        (b'{"instance_config":[1]}', b'{"instance_config":[1],' + TAIL + b"}"),
        (b'{"instance_config":"s"}', b'{"instance_config":"s",' + TAIL + b"}"),
        (b'{"instance_config":3}', b'{"instance_config":3,' + TAIL + b"}"),
        (b'{"instance_config":false}', b'{"instance_config":false,' + TAIL + b"}"),
    ],
)
def test_the_mask_is_merged_into_instance_config(body, expected):
    """An object keeps its members and is masked; a list, string, number or bool stays."""
    # case D02
    assert echo_with(body, fields=FIELDS, mask_nested=True) == expected


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b'{"x":NaN,"y":[Infinity,-Infinity],"z":"NaN"}', b'{"x":null,"y":[null,null],"z":"NaN"}'),
        (b'{"x":"\\ud800","y":"\\udc00\\ud800"}', b'{"x":"\\ufffd","y":"\\ufffd\\ufffd"}'),
        (b'{"x":"\\ud83d\\ude00\\ud800"}', b'{"x":"\\ud83d\\ude00\\ufffd"}'),
        (b'{"x":"\\\\ud800","y":NaN}', b'{"x":"\\\\ud800","y":null}'),
        (b'{"\\ud800":1}', b'{"\\ufffd":1}'),
        (b'{"x":{"\\ud800":1}}', b'{"x":{"\\ufffd":1}}'),
        (b'{"x":"\xed\xa0\xbd\xed\xb8\x80"}', '{"x":"\U0001f600"}'.encode()),
        (b'{"x":"\xed\xa0\xbd"}', '{"x":"\ufffd"}'.encode()),
        (b'\xef\xbb\xbf{"x":1.10}', b'{"x":1.10}'),
        (b'{"x":1e999,"y":-1E+400,"z":1e-999}', b'{"x":null,"y":null,"z":1e-999}'),
        (b'{"x":' + b"9" * 320 + b"}", b'{"x":null}'),
        (b'{"x":' + b"9" * 250 + b"e99}", b'{"x":null}'),
        (b'{"x":' + b"9" * 6000 + b"}", b'{"x":null}'),
        (b'{"x":"' + b"9" * 320 + b'"}', b'{"x":"' + b"9" * 320 + b'"}'),
        (b'{"x":"a1e999","y":"b: 1e999"}', b'{"x":"a1e999","y":"b: 1e999"}'),
        (b'{"x":1e+300,"y":12e003}', b'{"x":1e+300,"y":12e003}'),
        *(
            ('{"é":"\U0001f600","x":1.10}'.encode(codec), '{"é":"\U0001f600","x":1.10}'.encode())
            for codec in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
        ),
    ],
)
def test_an_echo_is_strict_json(body, kept):
    """What only lenient readers take is mended; every other character stays."""
    # case L05
    echoed = echo_with(body, fields=FIELDS, mask_nested=False)
    assert echoed == kept[:-1] + b"," + TAIL + b"}"
    msgspec.json.decode(echoed)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"[1]",
        b"null",
        b'"x"',
        b'{"x":1',
        b'{"x":1}x',
        b'{"x":"\xff"}',
        b'{"instance_config":{"mask_sam\xefple":true},"reward":1}',
        b'{"x":"\n"}',
        b'{"x":NaN,"y":"\n"}',
        b'{"x":1,}',
        b'{"x":' + b"[" * 100_000,
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "[1]".encode("utf-16"),
        b"\xff\xfe{\x00\x00",
    ],
)
def test_what_is_no_object_cannot_be_echoed(body):
    """The caller learns that there is nothing to echo."""
    assert echo_with(body, fields=FIELDS, mask_nested=True) is None


def test_no_fields_add_nothing():
    """Without fields the object keeps its bytes."""
    assert echo_with(b'{"x":1}', fields={}, mask_nested=False) == b'{"x":1}'
    assert echo_with(b'{"reward":1}', fields={}, mask_nested=False) == b'{"reward":1}'
    assert echo_with(b"{}", fields={}, mask_nested=False) == b"{}"


def test_a_field_may_be_instance_config_itself():
    """A field of that name replaces the request's and is written once."""
    echoed = echo_with(
        b'{"instance_config":{"a":1}}', fields={"instance_config": {"b": 2}}, mask_nested=True
    )
    assert echoed == b'{"instance_config":{"b":2}}'


def test_texts_of_fields_are_valid_unicode():
    """Lone surrogates in a reason or a name become U+FFFD and NaN becomes null."""
    fields = {"failure_reason": "a\ud800b", "x": [{"\udc00": float("nan")}], "y": 1}
    echoed = echo_with(b"{}", fields=fields, mask_nested=False)
    assert json.loads(echoed.decode()) == {
        "failure_reason": "a\ufffdb",
        "x": [{"\ufffd": None}],
        "y": 1,
    }


def test_ids_that_look_like_numbers_do_not_cost_a_rewrite():
    """Hexadecimal ids are strict, wherever they lie in the blocks that are read."""
    assert is_strict(b'{"x":["7e123","12e4567","a:1e 999","e000"]}')
    assert is_strict(b'{"x":"' + b"f7e123" * 30_000 + b'"}')
    assert not is_strict(b'{"x":"' + b"a" * 65_530 + b'","y":1e999}')
    assert mended(b'{"x":"' + b"a" * 65_530 + b'","y":1e999}').endswith(b'"y":null}')


def test_a_large_body_is_copied_once():
    """An echo of 8 MB needs one copy and hardly more."""
    for filler in (b"a b ", "é b ".encode()):
        body = b'{"instance_config":{"a":1},"x":"' + filler * 2_000_000 + b'"}'
        tracemalloc.start()
        echoed = echo_with(body, fields=FIELDS, mask_nested=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(echoed) == len(body) + len(TAIL) + len(b',"mask_sample":true') + 1
        assert peak < 1.1 * len(body)


NAMES = st.text(max_size=5) | st.sampled_from(["instance_config", "mask_sample", "reward"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(document=st.dictionaries(NAMES, VALUES, max_size=5), ascii_only=st.booleans())
def test_any_object_can_be_echoed(document, ascii_only):
    """An echo is the request with the fields set and the mask merged."""
    body = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    echoed = echo_with(body, fields=FIELDS, mask_nested=True)
    written = msgspec.json.decode(echoed)
    assert {name: written[name] for name in FIELDS} == FIELDS
    config = document.get("instance_config")
    if config is None or isinstance(config, dict):
        assert written["instance_config"]["mask_sample"] is True
        assert len(written["instance_config"]) == len({**(config or {}), "mask_sample": True})
    assert set(written) >= {name for name in document if name not in FIELDS and name.isascii()}

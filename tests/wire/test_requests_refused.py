# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which bodies are refused since a generous reader could find an owned name in them."""

import pytest

from truezero.fields import NEMO_GYM_OWNED
from truezero.wire.inspector import Inspector
from truezero.wire.scan import simd_find

SCANS = {"scan": simd_find(), "parse": None}


@pytest.fixture(params=SCANS)
def inspect(request):
    """The inspection with and without the SIMD search."""
    return Inspector(NEMO_GYM_OWNED, find=SCANS[request.param]).inspect


# What is no JSON object to strict readers, and holds an owned name. All of it used to be passed on
# but for a few dialects; yet for each of these some reader in use takes it, or may: one that strips
# more blanks or marks, reads on from the front, drops what is no UTF-8, or completes what is cut off.
REFUSED = {
    "truncated": b'{"reward":1,"x":',
    "truncated_string": b'{"reward":1,"x":"a',
    "truncated_key": b'{"reward":1,"x',
    "trailing": b'{"reward":1}x',
    "two_documents": b'{"reward":1}{"reward":1}',
    "two_brackets": b'{"reward":1}}',
    "no_colon": b'{"reward" 1}',
    "no_comma": b'{"reward":1 "x":2}',
    "bad_literal": b'{"reward":1,"x":nul}',
    "leading_zero": b'{"reward":1,"x":01}',
    "bad_escape": b'{"reward":1,"x":"\\q"}',
    "double_bom": b'\xef\xbb\xbf\xef\xbb\xbf{"reward":1}',
    "nul": b'{"reward":1}\0',
    "wrong_bracket": b'{"reward":[1}}',
    "vertical_tab": b'\x0b{"reward":1}',
    "form_feed": b'\x0c\n {"reward":1}',
    "separators": b'\x1c\x1d\x1e\x1f{"reward":1}',
    "next_line": '\x85\xa0\u2003\u3000{"reward":1}'.encode(),
    "mark_behind_blank": ' \ufeff{"reward":1}'.encode(),
    "zero_width": '\u200b\u2060{"reward":1}'.encode(),
    "blank_within_utf_16": '\x0b{"reward":1}'.encode("utf-16"),
    "blank_before_nested": b'\x0b{"instance_config":{"mask_sample":1}}',
    "trailing_word": b'{"reward":1} x',
    "trailing_clean_front": b'{"x":1}{"reward":1}',
    "nul_ahead": b'\0{"reward":1}',
    "mark_of_another_encoding": b'\xff\xfe{"reward":1}',
    "bad_byte_ahead": b'\xff{"reward":1}',
    "bad_utf8_in_name": b'{"rew\xffard":1}',
    "bad_utf8_cut_short_in_name": b'{"rew\xc3ard":1}',
    "bad_utf8_after_quote": b'{"\x80reward":1}',
    "bad_utf8_behind_a_real_one": b'{"reward":1,"\xe2\x82rewa\xf0rd":1}',
    "bad_utf8_in_prefix": b'{"_ng_fail\xffure_x":1}',
    "bad_utf8_in_escaped_name": b'{"rew\xff\\u0061rd":1}',
    "bad_utf8_in_nested_name": b'{"instance_config":{"mask_sam\xefple":true},"reward":1}',
    "bad_utf8_in_outer_name": b'{"instance_\xffconfig":{"mask_sample":true}}',
    "surrogate_in_name": b'{"rew\xed\xa0\x80ard":1}',
    "surrogate_in_utf_16": '{"rew\ud800ard":1}'.encode("utf-16", "surrogatepass"),
    "odd_byte_behind_utf_16": '{"reward":1}'.encode("utf-16-le") + b"x",
}


@pytest.mark.parametrize("trap", REFUSED)
def test_an_owned_name_in_a_broken_object_is_refused(inspect, trap):
    """What strict readers refuse and a generous one could take never carries a forged field on."""
    body = REFUSED[trap]
    found = inspect(body)
    assert found.body is body
    assert found.refused is not None
    assert (found.removed, found.agent_failure) == ((), None)


@pytest.mark.parametrize(
    "body",
    [
        b'{"reward":1,}',
        b'{"reward":1 , }',
        b'{"reward":1,"x":[1,]}',
        b'{"reward":1,"x":{"y":1,}}',
        b'{"reward":1 /* c */}',
        b'{// c\n"reward":1}',
        b'{"reward":1} // c',
        b"{\"reward\":1,'x':1}",
        b'{"reward":1,x:1}',
        b'{"reward":1,"x":+1}',
        b'{"reward":1,"x":.5}',
        b'{"reward":1,"x":0x1F}',
        b'{"rew\\u0061rd":1,}',
        b'{"instance_config":{"mask_sample":1},}',
        b'{"reward":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"reward":1,"reward":12,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_an_owned_name_in_a_dialect_of_json_is_refused(inspect, body):
    """What we cannot read and a more generous parser could never carries a forged field on."""
    found = inspect(body)
    assert found.body is body
    assert found.refused is not None
    assert found.removed == ()

# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What leaves a request body and what stays: a table of traps, read with and without the scan."""

import pytest

from truezero.fields import NEMO_GYM_OWNED
from truezero.wire.inspector import Inspector
from truezero.wire.scan import simd_find

SCANS = {"scan": simd_find(), "parse": None}
CONFIG = "instance_config.mask_sample"


@pytest.fixture(params=SCANS)
def inspect(request):
    """The inspection with and without the SIMD search."""
    return Inspector(NEMO_GYM_OWNED, find=SCANS[request.param]).inspect


def test_the_search_is_there():
    """Both ways are tested: the extra is installed."""
    assert SCANS["scan"] is not None


CUTS = {
    "only": (b'{"reward":1}', b"{}", "reward"),
    "first": (b'{"reward":1,"x":2}', b'{"x":2}', "reward"),
    "middle": (b'{"x":1,"reward":1,"y":2}', b'{"x":1,"y":2}', "reward"),
    "last": (b'{"x":1,"reward":1}', b'{"x":1}', "reward"),
    "blanks": (b' { "x" : 1 , "reward" : 1 } \n', b' { "x" : 1 } \n', "reward"),
    "blanks_first": (b'{ "reward": 1, "x": 2 }', b'{ "x": 2 }', "reward"),
    "blanks_only": (b'{ "reward" : 1 }', b"{  }", "reward"),
    "lines": (b'{\n\t"x": 1,\r\n\t"reward": 1\n}', b'{\n\t"x": 1\n}', "reward"),
    "duplicates": (b'{"reward":0,"x":1,"reward":1}', b'{"x":1}', "reward reward"),
    "duplicates_alone": (b'{"reward":0,"reward":1}', b"{}", "reward reward"),
    "duplicate_prefix_value": (b'{"reward":1,"reward":12,"x":3}', b'{"x":3}', "reward reward"),
    "duplicate_of_another": (b'{"x":1,"x":12,"reward":3}', b'{"x":1,"x":12}', "reward"),
    "all": (
        (
            b'{"reward":1,"mask_sample":true,"failure_kind":"a","failure_reason":"b",'
            b'"reward_components":{},"_ng_failure_class":"c","_ng_failure_terminal":1,'
            b'"_ng_no_persist":1}'
        ),
        b"{}",
        (
            "reward mask_sample failure_kind failure_reason reward_components _ng_failure_class "
            "_ng_failure_terminal _ng_no_persist"
        ),
    ),
    "prefix_itself": (b'{"_ng_failure_":1}', b"{}", "_ng_failure_"),
    "escape_lower": (b'{"rew\\u0061rd":1,"x":1}', b'{"x":1}', "reward"),
    "escape_first": (b'{"\\u0072eward":1,"x":1}', b'{"x":1}', "reward"),
    "escape_underscore": (b'{"mask\\u005Fsample":1}', b"{}", "mask_sample"),
    "escape_all": (
        b'{"\\u0072\\u0065\\u0077\\u0061\\u0072\\u0064":1,"x":1}',
        b'{"x":1}',
        "reward",
    ),
    "escape_prefix": (b'{"\\u005fng_f\\u0061ilure_x":1,"x":1}', b'{"x":1}', "_ng_failure_x"),
    "escape_twice": (b'{"rew\\u0061rd":1,"reward":2,"x":1}', b'{"x":1}', "reward reward"),
    "nested_mask": (
        b'{"instance_config":{"mask_sample":true,"keep":1}}',
        b'{"instance_config":{"keep":1}}',
        CONFIG,
    ),
    "nested_mask_last": (
        b'{"instance_config":{"keep":1,"mask_sample":true},"x":1}',
        b'{"instance_config":{"keep":1},"x":1}',
        CONFIG,
    ),
    "nested_mask_only": (
        b'{"instance_config":{"mask_sample":true}}',
        b'{"instance_config":{}}',
        CONFIG,
    ),
    "nested_mask_twice": (
        b'{"instance_config":{"mask_sample":true,"k":1,"mask_sample":false}}',
        b'{"instance_config":{"k":1}}',
        f"{CONFIG} {CONFIG}",
    ),
    "nested_escaped": (
        b'{"instance_config":{"m\\u0061sk_sample":true,"k":1}}',
        b'{"instance_config":{"k":1}}',
        CONFIG,
    ),
    "config_escaped": (
        b'{"inst\\u0061nce_config":{"mask_sample":true,"k":1}}',
        b'{"inst\\u0061nce_config":{"k":1}}',
        CONFIG,
    ),
    "config_dirty_then_clean": (
        b'{"instance_config":{"mask_sample":true},"instance_config":{"k":1}}',
        b'{"instance_config":{},"instance_config":{"k":1}}',
        CONFIG,
    ),
    "config_dirty_then_number": (
        b'{"instance_config":{"mask_sample":true},"instance_config":3}',
        b'{"instance_config":{},"instance_config":3}',
        CONFIG,
    ),
    "order_of_names": (
        b'{"instance_config":{"mask_sample":1},"reward":2}',
        b'{"instance_config":{}}',
        f"{CONFIG} reward",
    ),
    "only_one_level": (
        b'{"instance_config":{"instance_config":{"mask_sample":1},"reward":1,"mask_sample":2}}',
        b'{"instance_config":{"instance_config":{"mask_sample":1},"reward":1}}',
        CONFIG,
    ),
    "nan": (b'{"reward":NaN,"x":NaN}', b'{"x":NaN}', "reward"),
    "infinity": (b'{"x":-Infinity,"reward":Infinity}', b'{"x":-Infinity}', "reward"),
    "lone_surrogate": (b'{"x":"\\ud800","reward":1}', b'{"x":"\\ud800"}', "reward"),
    "lone_surrogate_key": (b'{"\\udc00":1,"reward":1}', b'{"\\udc00":1}', "reward"),
    "cesu": (
        b'{"x":"\xed\xa0\xbd\xed\xb8\x80","reward":1}',
        b'{"x":"\xed\xa0\xbd\xed\xb8\x80"}',
        "reward",
    ),
    "cesu_nan": (
        b'{"x":"\xed\xa0\xbd",  "y":NaN,"reward":1}',
        b'{"x":"\xed\xa0\xbd",  "y":NaN}',
        "reward",
    ),
    "number_text": (
        b'{"a":1.10,"b":-0.0,"c":1E5,"d":1e999,"reward":1}',
        b'{"a":1.10,"b":-0.0,"c":1E5,"d":1e999}',
        "reward",
    ),
    "huge_int": (
        b'{"a":' + b"9" * 6000 + b',"reward":' + b"8" * 6000 + b"}",
        b'{"a":' + b"9" * 6000 + b"}",
        "reward",
    ),
    "huge_int_nan": (
        b'{"a":' + b"9" * 6000 + b',"b":NaN,"reward":1}',
        b'{"a":' + b"9" * 6000 + b',"b":NaN}',
        "reward",
    ),
    "value_object": (b'{"reward":{"a":[1,{"}":"]"}]},"x":1}', b'{"x":1}', "reward"),
    "value_string": (b'{"reward":"},\\"x\\":{","x":1}', b'{"x":1}', "reward"),
    "value_backslash": (b'{"x":"\\\\","reward":"\\\\\\""}', b'{"x":"\\\\"}', "reward"),
    "unicode_kept": (
        '{"é":"\U0001f600","reward":1,"x":"\\u00e9\\/"}'.encode(),
        '{"é":"\U0001f600","x":"\\u00e9\\/"}'.encode(),
        "reward",
    ),
    "control_character": (b'{"x":"a\nb","reward":1}', b'{"x":"a\nb"}', "reward"),
    "bad_utf8_in_value": (b'{"x":"\xff","reward":1}', b'{"x":"\xff"}', "reward"),
    "bad_utf8_in_name": (b'{"reward":1,"\xff":1}', b'{"\xff":1}', "reward"),
    "bad_utf8_duplicates": (b'{"reward":1,"\xff":1,"reward":12}', b'{"\xff":1}', "reward reward"),
    "bom": (b'\xef\xbb\xbf{"reward":1,"x":2}', b'\xef\xbb\xbf{"x":2}', "reward"),
}
for _codec in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
    for _mark in ("", "\ufeff"):
        CUTS[f"{_codec}{'_bom' if _mark else ''}"] = (
            (_mark + ' {"é":"\U0001f600\ud800", "reward" :1, "x":NaN}').encode(
                _codec, "surrogatepass"
            ),
            (_mark + ' {"é":"\U0001f600\ud800", "x":NaN}').encode(_codec, "surrogatepass"),
            "reward",
        )


@pytest.mark.parametrize("trap", CUTS)
def test_owned_fields_are_cut_and_all_else_keeps_its_bytes(inspect, trap):
    """Every spelling, duplicate and encoding of an owned field goes; nothing else changes."""
    # case L01
    # case G08
    # case D02
    body, expected, removed = CUTS[trap]
    found = inspect(body)
    assert found.body == expected
    assert found.removed == tuple(removed.split())
    assert found.refused is None
    again = inspect(found.body)
    assert again.body is found.body
    assert again.removed == ()


KEPT = {
    "empty_object": b"{}",
    "clean": b'{"response":{"output":[]},"x":1}',
    "nested": b'{"verifier_metadata":{"reward":1,"mask_sample":true},"x":[{"failure_kind":1}]}',
    "in_text": b'{"x":"\\"reward\\": 1","y":"reward","z":"{\\"mask_sample\\":true}"}',
    "own_ng": b'{"_ng_task_index":1,"_ng_rollout_id":"a","_ng_rollout_index":2}',
    "similar": b'{"Reward":1,"rewards":2,"reward ":3,"xreward":4,"failure":5,"x_ng_failure_":1}',
    "similar_escape": b'{"rew\\\\u0061rd":1}',
    "terminal_colours": b'{"x":"\\u001b[0m \\u00e9 \\u0061"}',
    "config_list": b'{"instance_config":["mask_sample"]}',
    "config_string": b'{"instance_config":"{\\"mask_sample\\":true}"}',
    "config_null": b'{"instance_config":null}',
    "config_deeper": b'{"instance_config":{"a":{"mask_sample":true}}}',
    "config_elsewhere": b'{"x":{"instance_config":{"mask_sample":true}}}',
    "config_clean_duplicates": b'{"instance_config":{"a":12},"instance_config":{"a":1}}',
    "nan": b'{"x":NaN,"y":{"reward":1}}',
    "surrogate": b'{"x":"\\ud800","y":{"reward":1}}',
    "bom": b'\xef\xbb\xbf{"x":{"reward":1}}',
    "utf_16": '{"x":{"reward":1}}'.encode("utf-16"),
    "number_out_of_range": b'{"x":1e999,"y":{"reward":1}}',
    # case G09
    "empty": b"",
    "blank": b" \n",
    "text": b"reward=1",
    "multipart": b'--x\r\nContent-Disposition: form-data; name="reward"\r\n\r\n1\r\n--x--\r\n',
    "array": b'[{"reward":1}]',
    "string": b'"reward"',
    "number": b"1",
    "null": b"null",
    "array_utf_16": '[{"reward":1}]'.encode("utf-16"),
    "one_byte": b"{",
    "text_brace": b"reward: {1",
    # Only a name in double quotes can be told from the words of a text without a parse.
    "single_quotes": b"{'reward':1}",
    "no_quotes": b"{reward : 1}",
    "clean_truncated": b'{"x":1,"y":',
    "clean_truncated_string": b'{"x":"the reward, failure_kind and \\"reward\\": 1',
    "clean_two_documents": b'{"x":1}{"y":2}',
    "clean_trailing": b'{"x":1} x',
    "clean_blank_ahead": b'\x0b{"x":1}',
    "similar_trailing": b'{"rewards":1,"xreward":2,"Reward":3}x',
    "bad_utf8_nested": b'{"x":"\xff","y":{"reward":1}}',
    "bad_utf8_in_similar_name": b'{"rew\xffards":1}',
    "bad_utf16": b"\xff\xfe{\x00\x00",
    "bad_utf32": b"\xff\xfe\x00\x00{\x00\x00\x00abcd",
    "clean_trailing_comma": b'{"x":1,}',
    "clean_comment": b'{"x":1 /* reward */}',
    "deep": b'{"x":' + b"[" * 1_000_000,
    "deep_whole": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep_bare": b"[" * 1_000_000,
    "deep_utf_16": ('{"x":' + "[" * 100_000).encode("utf-16"),
}


@pytest.mark.parametrize("trap", KEPT)
def test_a_body_without_owned_fields_is_the_same_object(inspect, trap):
    """Nested names, texts and all that is no JSON object go on to the app unchanged."""
    body = KEPT[trap]
    found = inspect(body)
    assert found.body is body
    assert (found.removed, found.agent_failure, found.refused) == ((), None, None)


def test_there_are_enough_traps():
    """The table of traps holds at least 68 bodies."""
    assert len(CUTS) + len(KEPT) >= 68

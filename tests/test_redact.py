# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the text that failures leave behind: short, valid, without secrets."""

import json

import pytest
from hypothesis import given, strategies as st

from truezero.redact import REASON_LIMIT, TYPE_NAME_LIMIT, clean_reason, describe, type_name

SECRET = "Zm9vYmFyMTIzNDU2Nzg5"

SHAPES = [
    "sk-proj-abcDEF1234567890",
    "sk-ant-api03-abcDEF_123-xyz",
    "sk-abc",
    "hf_" + "aBcDeFgH1jKlMnOpQrStUvWxYz",
    "ghp_" + "a1B2" * 9,
    "gho_" + "a1B2" * 9,
    "github_pat_11ABCDEFG_abcdefghij",
    "xoxb-1234567890-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstu",
    "nvapi-abc_DEF-123456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]

NAMED = [
    "api_key={}",
    "apikey={}",
    '"api-key": "{}"',
    "'api_key': '{}'",
    "api_key = '{}'",
    "x-api-key: {}",
    "X-Api-Key: {}\nHost: judge",
    "OPENAI_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "AWS_ACCESS_KEY_ID={}",
    "token={}",
    "access_token: '{}'",
    "HF_TOKEN={}",
    "secret={}",
    '{{"client_secret":"{}","a":1}}',
    "password={}",
    "passwd: {}",
    "Settings(password='{}', host='db')",
    r"{{\"password\": \"{}\"}}",
    "Authorization: Bearer {}",
    "authorization: Digest username=me, response={}",
    "Proxy-Authorization: Basic {}",
    '"Authorization": "Token {}"',
    "[(b'authorization', b'{}')]",
    "('Authorization', 'Bearer {}')",
    "Cookie: session={}; theme=dark",
    "Set-Cookie: session={}; Path=/; HttpOnly",
    "'cookie': 'a={}'",
    "Bearer {}",
    "used Basic {} for it",
    "https://user:{}@judge.example/v1",
    "https://{}@judge.example/v1",
    "postgresql+psycopg://u:{}@db:5432/x",
    "postgres://u:a/{}@db/x",
    "https://judge.example/v1?key={}",
    "https://judge.example/v1?a=1&sig={}&b=2",
    "Max retries exceeded with url: /v1?q={} (Caused by X)",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n{}",
]


@pytest.mark.parametrize("key", SHAPES)
@pytest.mark.parametrize(
    "form", ["{}", "bad key {}.", "('{}',)", '{{"k": "{}"}}', "k={}\n", "<{}>"]
)
def test_a_key_is_known_by_its_shape(form, key):
    """A key of a known shape is taken out wherever it stands."""
    assert key not in clean_reason(form.format(key))  # case N07


@pytest.mark.parametrize("form", NAMED)
def test_a_secret_is_known_by_its_name(form):
    """What a header, a parameter or a URL names as secret is taken out."""
    text = form.format(SECRET)
    clean = clean_reason(f"before {text}")
    assert SECRET not in clean
    assert clean.startswith("before ")


@pytest.mark.parametrize("form", NAMED)
@pytest.mark.parametrize("show", [str, repr, json.dumps], ids=["text", "repr", "json"])
def test_a_secret_is_known_in_its_quoted_forms(form, show):
    """Quoting and escaping hide no secret."""
    assert SECRET not in clean_reason(show(form.format(SECRET)))


def test_host_path_and_names_stay():
    """The host, the path and the names of parameters stay readable beside what was taken out."""
    url = "https://user:pw@judge.example:8443/v1/chat?key=abc&model=big#top"
    text = clean_reason(f"HTTP 401 Unauthorized from {url} Authorization: Bearer abc.def, gave up")
    assert text == (
        "HTTP 401 Unauthorized from https://[redacted]@judge.example:8443/v1/chat"
        "?key=[redacted]&model=[redacted]#top Authorization: [redacted], gave up"
    )  # case N07


@pytest.mark.parametrize(
    "text",
    [
        "Basic authentication is a basic understanding; the bearer token expired.",
        "max_tokens: 4096, total_tokens=128",
        "risk-management-assessment of the desk-1234567 and sk-learn",
        "KeyError: 'expected_answer'",
        "token=None, secret=null, api_key='', password=\"\"",
        "see https://host.example/@scope/pkg/x.html#part",
        "mail me@example.org about http://host:8000/path",
        "hf_hub_download and hf_datasets failed",
        'File "/srv/app.py", line 3, in verify\n\treturn 1 / 0',
        "Ärger, 数学 and 🙂",
    ],
)
def test_ordinary_text_stays(text):
    """Text that holds no secret is not changed."""
    assert clean_reason(text) == text


@given(
    st.lists(
        st.sampled_from(
            ["the", "judge", "12", "rows", "no!", "(twice)", "数", "é\n", "x-y", "a_b", "3.5:"]
        )
    )
)
def test_words_without_a_shape_are_unchanged(words):
    """Words that look like no secret are unchanged up to the bound."""
    text = " ".join(words)
    clean = clean_reason(text)
    assert clean == text if len(text) <= REASON_LIMIT else clean[:-1] == text[: REASON_LIMIT - 1]


PIECES = st.sampled_from(
    [
        *SHAPES,
        *[form.format(SECRET) for form in NAMED],
        "\x00",
        "\ud800",
        "\\",
        '"',
        "'",
        "=",
        "?a=",
        "https://",
        "@",
        " ",
        "\n",
        ",",
        "&",
        "[redacted]",
        "token",
        "Bearer ",
        "…",
        "cookie:",
        "a" * 700,
    ]
)


@given(st.lists(PIECES | st.text(max_size=12), max_size=14).map("".join))
def test_any_text_becomes_fit_to_store(text):
    """Whatever comes in: valid, bounded, clean text goes out, and cleaning it again is no change."""
    clean = clean_reason(text)
    assert len(clean) <= REASON_LIMIT
    clean.encode()
    assert not any(ord(char) < 32 and char not in "\n\t" for char in clean)
    assert clean_reason(clean) == clean


@given(st.integers(0, 9000), st.sampled_from([*SHAPES[:2], f"https://user:{SECRET}@host/"]))
def test_a_secret_that_the_window_cuts_is_not_leaked(offset, secret):
    """Half a secret is a secret: the place where a long text is cut shows none of it."""
    noise = ("api_key=" + "x" * 90 + " ") * 200
    clean = clean_reason(noise[:offset] + " " + secret + " " + noise)
    assert SECRET[:6] not in clean
    assert "abcDEF" not in clean


@pytest.mark.parametrize(
    "piece",
    ["a", "http://", "\\", "authorization", 'token="', "token= ", "sk-", "bearer aaaa", "hf_", "eyJaaaaa.",
     "-----BEGIN PRIVATE KEY-----", "a:b@", "?a", "api_key", "cookie", "\x00", "\ud800", "Basic a.-/", "://@"],
)  # fmt: skip
def test_a_huge_hostile_text_is_cleaned_in_bounded_time(piece):
    """Five megabytes of a pattern's worst case cost no more than a page of it."""
    clean = clean_reason(piece * (5_000_000 // len(piece)))
    assert len(clean) <= REASON_LIMIT  # case N02
    assert clean.endswith("…")


def test_a_long_text_without_spaces_keeps_its_beginning():
    """A long text is cut at the bound, and says that it was."""
    assert clean_reason("x" * 5_000_000) == "x" * (REASON_LIMIT - 1) + "…"
    assert clean_reason("x" * REASON_LIMIT) == "x" * REASON_LIMIT


def test_controls_and_surrogates_are_mended():
    """NUL and control characters go, lone surrogates are replaced, tab and newline stay."""
    assert clean_reason("a\x00b\x1b[1m\r\n\tc\ud800\x7f") == "ab[1m\n\tc\ufffd"
    assert clean_reason("sk-\x00proj-abcdef123456") == "[redacted]"


class Hostile(BaseException):
    """An exception whose text cannot be had."""

    def __init__(self, raises):
        super().__init__("x")
        self.raises = raises

    def __str__(self):
        if isinstance(self.raises, BaseException):
            raise self.raises
        return self.raises


class OddText(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __str__(self):
        return 5  # noqa: PLE0307 -- the lie under test


@pytest.mark.parametrize(
    "raises", [ValueError("no"), RecursionError(), Hostile("x"), 5, None, b"x"]
)
def test_an_exception_without_text_is_still_described(raises):
    """A ``__str__`` that raises or returns no text does not spoil the description."""
    assert describe(Hostile(raises)) == "Hostile: <unprintable Hostile>"  # case N02


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exit_inside_a_description_goes_on(leaving):
    """Whoever ends the process while a text is made is not held up."""
    with pytest.raises(leaving):
        describe(Hostile(leaving()))


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (KeyError("reward"), "KeyError: 'reward'"),
        (ValueError(1, b"\x00"), "ValueError: (1, b'\\x00')"),
        (ValueError("a\x00b"), "ValueError: ab"),
        (ValueError(OddText("odd")), "ValueError: <unprintable ValueError>"),
    ],
)
def test_a_description_is_type_and_message(exc, text):
    """An exception is described by its type's name and its message."""
    assert describe(exc) == text


def test_a_huge_message_and_a_circular_cause_are_described():
    """Neither five megabytes nor a cause that is its own cause are trouble."""
    exc = ValueError("x y " * 1_250_000)
    exc.__cause__ = exc
    assert describe(exc).startswith("ValueError: x y")  # case N02
    assert len(describe(exc)) <= REASON_LIMIT


def test_a_type_is_named_with_its_module():
    """A type goes by its qualified name, builtins by the bare one, and the name is bounded."""
    assert type_name(json.JSONDecodeError("x", "y", 0)) == "json.decoder.JSONDecodeError"
    assert type_name(KeyError()) == "KeyError"
    assert (
        type_name(type("X" * 999, (ValueError,), {"__module__": "m"})())
        == ("m." + "X" * 999)[:TYPE_NAME_LIMIT]
    )
    assert type_name(type("Odd", (ValueError,), {"__module__": 5})()) == "Odd"


@pytest.mark.parametrize("thing", [None, 5, b"x", ["sk-abcdef123"], {"token": "abc"}])
def test_anything_can_be_cleaned(thing):
    """What is no text is asked for its text."""
    clean = clean_reason(thing)
    assert isinstance(clean, str)
    assert "abc" not in clean

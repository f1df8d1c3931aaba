# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Turns exceptions and foreign text into short, clean, valid text; knows nothing of kinds.

What is taken out is known by its shape (a key's prefix, a URL's user part) or by its name
(``api_key=``, ``Authorization:``). A reader loses a harmless word now and then; a secret with
neither shape nor name cannot be seen and stays.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

REASON_LIMIT: Final = 2000
"""Longest reason, in characters (NeMo Gym's bound)."""
TYPE_NAME_LIMIT: Final = 200
"""Longest type name, in characters."""

_WINDOW: Final = 4 * REASON_LIMIT
_LONGEST_UNSHAPED: Final = REASON_LIMIT
"""Within so many characters each shape of a secret shows, in characters."""
_MARK: Final = "…"
_REDACTED: Final = "[redacted]"
_SETTLED_AFTER: Final = 4
# Left out: what a terminal or a C string acts on. Tab and newline stay.
_CONTROLS: Final = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {0x09, 0x0A})
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_reason(text: object) -> str:
    """Make text fit to store: short, valid and without secrets.

    Args:
        text: Anything; what is no ``str`` is asked for its text.

    Returns:
        Valid UTF-8 of at most ``REASON_LIMIT`` characters (cut at ``…``), without control
        characters other than tab and newline and without secrets. Idempotent. Takes the same
        time for a text of any length, and never raises.
    """
    whole = _text_of(text)
    cut = len(whole) > _WINDOW
    window = _without_last_word(whole[:_WINDOW]) if cut else whole
    if _UNFIT.search(window):
        window = _SURROGATE.sub("\ufffd", window.translate(_CONTROLS))
    clean = _shorten(_redact(window), cut=cut)
    # A cut or a replacement may make a new shape, and the next reader would see another text.
    for _ in range(_SETTLED_AFTER if clean is not window else 0):
        again = _shorten(_redact(clean), cut=False)
        if again == clean:
            break
        clean = again
    return clean


def describe(exc: BaseException) -> str:
    """Say what an exception says, as ``TypeName: message``; cleaned, never raises."""
    name, message = type(exc).__name__, _text_of(exc)
    return clean_reason(f"{name}: {message}" if message else name)


def type_name(exc: BaseException) -> str:
    """An exception's qualified type name, e.g. ``httpx.ConnectError``.

    Builtins go by their bare name, as OpenTelemetry spells ``exception.type``. At most
    ``TYPE_NAME_LIMIT`` characters.
    """
    module = getattr(type(exc), "__module__", None)
    name = type(exc).__qualname__
    if isinstance(module, str) and module != "builtins":
        name = f"{module}.{name}"
    return _SURROGATE.sub("\ufffd", name.translate(_CONTROLS))[:TYPE_NAME_LIMIT]


def _text_of(subject: object) -> str:
    """The text of any object; its ``__str__`` may raise, lie about its type, or be missing."""
    # The type is asked, not the object: its __class__ may raise.
    if issubclass(type(subject), str):
        return str.__str__(cast("str", subject))
    try:
        return str.__str__(str(subject))
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # noqa: BLE001 -- nobody waits for a cancellation raised by a __str__
        return f"<unprintable {type(subject).__name__}>"


def _without_last_word(text: str) -> str:
    """Drop the end of a cut text: a secret cut in two may have lost its shape."""
    tail = text[-_LONGEST_UNSHAPED:]
    words = tail.rsplit(None, 1)
    last = len(words[-1]) if len(words) > 1 and not tail[-1].isspace() else len(tail)
    return text[: len(text) - last]


def _shorten(text: str, *, cut: bool) -> str:
    if len(text) > REASON_LIMIT:
        return text[: REASON_LIMIT - 1] + _MARK
    return text[: REASON_LIMIT - 1] + _MARK if cut else text


# Every pattern below is linear in a bounded window: no pattern may begin at each character and
# then run far, and none ends in a condition on what follows a secret (a cut text must match too).

_NAMED_SEPARATOR: Final = (
    r"""(?:\\{0,3}["'])?[ \t]{0,4}(?:=>|[:=])[ \t]{0,4}|\\{0,3}["'][ \t]{0,4},[ \t]{0,4}"""
)
_QUOTED: Final = (
    r"""b?"(?:[^"\\\n]|\\.)+|b?'(?:[^'\\\n]|\\.)+|\\{1,3}"[^"\\\n]+|\\{1,3}'[^'\\\n]+"""
)
_NO_VALUE: Final = r"""(?!(?:None|null|true|false)(?:[\s,;&)}\]"']|\Z)|b?\\{0,3}(?:""|''))"""
_TO_LINE_END: Final = r"(?:[^\n\\]|\\(?![nr]))+"
_BARE_VALUE: Final = r"""(?:[^\s,;&]|,(?=[^\s"']))+"""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)", re.DOTALL
)
_CREDENTIAL_HEADER = re.compile(
    rf"(?P<name>(?:proxy-)?authorization)(?P<separator>{_NAMED_SEPARATOR})"
    rf"(?P<value>\[redacted\]|{_QUOTED}"
    rf"|(?:bearer|basic|token|apikey|negotiate|key)[ \t]+[^\s,;]+|{_TO_LINE_END})",
    re.IGNORECASE,
)
_COOKIE_HEADER = re.compile(
    rf"(?P<name>(?:set-)?cookie2?)(?P<separator>{_NAMED_SEPARATOR})"
    rf"(?P<value>\[redacted\]|{_QUOTED}|{_TO_LINE_END})",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?P<name>api[ _-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|"
    r"auth[_-]?key|x-goog-signature|x-amz-signature|x-amz-security-token|client[_-]?secret|"
    r"secret|token|passwd|password|passphrase|pwd|credentials?)"
    rf"(?P<separator>{_NAMED_SEPARATOR})"
    rf"(?P<value>{_NO_VALUE}(?:{_QUOTED}|{_BARE_VALUE}))",
    re.IGNORECASE,
)
_QUERY_VALUE = re.compile(
    r"""(?P<name>[?&#][A-Za-z0-9_.%\[\]\-]{1,64}=)(?:[^\s&#"'<>]|'(?=[\w%]))+"""
)
_URL = re.compile(
    r"""(?P<scheme>(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{0,31}:(?:\\?/){2})(?P<rest>[^\s"<>]+)"""
)
_KEY_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?!learn)[A-Za-z0-9_\-*]{3,}"
    r"|hf_(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{8,}|hf_[A-Za-z0-9]{16,}"
    r"|gh[opsur]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_\-]{8,}"
    r"|xox[a-z]-[A-Za-z0-9\-]{6,}|A[KS]IA[A-Z0-9]{12,}|AIza[A-Za-z0-9_\-]{16,}"
    r"|nvapi-[A-Za-z0-9_\-]{6,}|gsk_[A-Za-z0-9]{16,}"
    r"|eyJ[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)?"
    r")"
)
_BEARER = re.compile(
    r"(?P<name>(?<![A-Za-z0-9])(?:bearer|basic)[ \t]+)"
    r"(?!realm=)(?:[A-Za-z0-9._~+/\-](?=[A-Za-z.\-/]{0,24}[0-9_~+=])|[A-Za-z0-9_~+]{24})"
    r"[A-Za-z0-9._~+/=\-]*",
    re.IGNORECASE,
)


def _keep_name(match: re.Match[str]) -> str:
    """Replace a named value, and keep its name, its separator and its quotes."""
    value = match["value"]
    quote = re.match(r"""b?\\{0,3}["']""", value)
    return f"{match['name']}{match['separator']}{quote[0] if quote else ''}{_REDACTED}"


def _clean_url(match: re.Match[str]) -> str:
    """Take the user part out of a URL, and keep its host."""
    rest = match["rest"]
    end = re.search(r"[/?#\\]", rest)
    authority = rest[: end.start()] if end else rest
    at = authority.rfind("@")
    if at < 0 and re.search(r":[^0-9\]'),]", authority):
        # "user:p/w@host": the password holds a slash, so the user part ends later.
        at = rest.rfind("@")
    if at >= 0:
        rest = f"{_REDACTED}@{rest[at + 1 :]}"
    return match["scheme"] + rest


def _to_mark(_: re.Match[str]) -> str:
    return _REDACTED


def _keep_start(match: re.Match[str]) -> str:
    return f"{match['name']}{_REDACTED}"


@dataclass(frozen=True, slots=True)
class _Pass:
    """One kind of secret.

    Attributes:
        signs: Lower-case texts, one of which is in every text that holds such a secret.
        pattern: What to replace.
        replace: By what.
    """

    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: Callable[[re.Match[str]], str]

    def over(self, text: str, lowered: str) -> str:
        """The text without such secrets; cheap where there is no sign of one."""
        if any(sign in lowered for sign in self.signs):
            return self.pattern.sub(self.replace, text)
        return text


_NAME_SIGNS: Final = ("key", "token", "secret", "passw", "passphrase", "pwd", "credential")
_SHAPE_SIGNS: Final = ("sk-", "hf_", "gh", "glpat", "xox", "akia", "asia", "aiza", "nvapi", "eyj")
_PASSES: Final = (
    _Pass(("-----begin",), _PRIVATE_KEY, _to_mark),
    _Pass(("authorization",), _CREDENTIAL_HEADER, _keep_name),
    _Pass(("cookie",), _COOKIE_HEADER, _keep_name),
    _Pass(("@",), _URL, _clean_url),
    _Pass(("?", "&", "#"), _QUERY_VALUE, _keep_start),
    _Pass((*_NAME_SIGNS, "signature"), _NAMED, _keep_name),
    _Pass((*_SHAPE_SIGNS, "gsk_"), _KEY_SHAPES, _to_mark),
    _Pass(("bearer", "basic"), _BEARER, _keep_start),
)


def _redact(text: str) -> str:
    lowered = text.lower()
    for one in _PASSES:
        text = one.over(text, lowered)
    return text

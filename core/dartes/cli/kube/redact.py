"""Takes secrets out of what goes into a bug report: by telling names, and by the shape of tokens.

Pure. It first learns the values that stand beside a telling name, so that it finds them again in logs. A
secret that looks like any other word, and stands beside no telling name, it can't know.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

REMOVED: Final = "(removed)"

LEARNED_LENGTH: Final = 6
"""Shorter values are not looked for elsewhere: they would be found in ordinary words."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
DROPPED: Final = frozenset({"managedFields", LAST_APPLIED})
"""Say nothing about a fault; the second is a whole object as text, with every value it was applied with."""

_TELLING: Final = frozenset(
    (
        *("accesskey", "apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials"),
        *("dsn", "jwt", "passphrase", "passwd", "password", "passwords", "pat", "pwd", "sas", "secret"),
        *("secretkey", "secrets", "token"),
    )
)
_KEYS: Final = frozenset({"key", "keys"})
_KINDS_OF_KEY: Final = frozenset(
    ("access", "account", "api", "encryption", "private", "secret", "shared", "signing", "ssh", "storage")
)
_OF_A_VARIABLE: Final = frozenset({"pass", "tokens"})
"""Words that tell of a secret in a variable's name; a field of such a name counts something."""
_TELLING_ENDINGS: Final = (
    *("accesskey", "apikey", "credential", "credentials", "passphrase", "passwd", "password"),
    *("pass", "secret", "secretkey", "token"),
)
"""Of one word of a variable's name: PGPASSWORD."""
_NO_PASS: Final = frozenset({"bypass", "compass"})
_COUNTS: Final = frozenset(
    (
        *("answer", "batched", "budget", "count", "eos", "generated", "limit", "max", "min", "num"),
        *("pad", "per", "prompt", "special", "stop", "total"),
    )
)
"""Beside these, tokens are those of a model."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_TELLING_END: Final = (
    r"(?:token|password|passwd|passphrase|pwd|secret|credentials?|authorization|dsn|jwt|cookie|auth"
    r"|(?:api|access|account|private|secret|signing|shared|storage)[_-]?key)"
)
_OPTION_END: Final = rf"(?:{_TELLING_END}|key)"
_SCHEME: Final = r"(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate)"
_AUTHORIZATION: Final = r"authorization\\*[\"']?\s*[:=]\s*(?:\[\s*)?\\*[\"']?"
_QUOTED: Final = (
    r"\"(?=\S)(?:[^\"\\\n]|\\.){4,}|'(?=\S)(?:[^'\\\n]|\\.){4,}"
    r"|\\+\"(?=\S)[^\"\\\n]{4,}|\\+'(?=\S)[^'\\\n]{4,}"
)
"""A quoted value without its closing quote: that need not be there, so nothing is looked at twice."""
_BARE: Final = r"(?:[^\s\"'\\,;&)}\]]|[,;&](?![\s\\\"']|[\w.-]*[=:]|\Z)){4,}"
"""A value without quotes; a separator ends it where another name, a quote or white space follows."""


def _without_value(match: re.Match[str]) -> str:
    quoted = match["quoted"] or ""
    opening = quoted[: len(quoted) - len(quoted.lstrip("\\\"'"))] or match["opening"] or ""
    return f"{match['before']}{opening}{REMOVED}"


# Each with what is put in its place. Order matters: what is named by its whole shape goes first.
_SHAPES: Final = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        REMOVED,
    ),
    (re.compile(r"\bhf_[A-Za-z0-9]{16,}"), REMOVED),
    (re.compile(r"\b(?:AKIA|ASIA|AGPA|AROA)[0-9A-Z]{12,}\b"), REMOVED),
    (re.compile(r"\b(?:gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,})"), REMOVED),
    (re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"), REMOVED),
    (re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{10,}"), REMOVED),
    (re.compile(r"\bAIza[0-9A-Za-z_-]{30,}"), REMOVED),
    (re.compile(r"\bya29\.[0-9A-Za-z_-]{16,}"), REMOVED),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), REMOVED),
    (re.compile(r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]{8,}"), rf"\1{REMOVED}"),
    (re.compile(r"\b(Bearer|Basic)\s+(?!\()[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {REMOVED}"),
    # In small letters they may be words of a sentence, with another word behind.
    (
        re.compile(r"\b((?i:Bearer|Basic))\s+(?!\(|[a-z]+[.,:;]?(?:[\s\"')]|\Z))[A-Za-z0-9._~+/=-]{8,}"),
        rf"\1 {REMOVED}",
    ),
    (re.compile(rf"({_AUTHORIZATION}{_SCHEME}\s+)(?!\()[^\s\"'\\]+", re.IGNORECASE), rf"\1{REMOVED}"),
    # Of a scheme that is not known, the word behind it goes too: which of the two is the secret?
    (
        re.compile(
            rf"({_AUTHORIZATION})(?!{_SCHEME}\s|[(\[])[^\s\"'\\]+"
            r"(?:[ \t]+[^\s\"'\\=:]+={0,2}(?=[\s\"'\\]|\Z))?",
            re.IGNORECASE,
        ),
        rf"\1{REMOVED}",
    ),
    (re.compile(r"(?<=://)[^\s/@:\"']*:[^\s/@\"']+(?=@)"), REMOVED),
    (re.compile(r"(?<=://)[^\s/@:\"']{16,}(?=@)"), REMOVED),
    (
        re.compile(
            r"([?&](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|sig"
            r"|signature|key)=)[^&\s\"'\\]+",
            re.IGNORECASE,
        ),
        rf"\1{REMOVED}",
    ),
    (
        re.compile(
            rf"(?P<before>{_TELLING_END}\\*[\"']?\s*(?:=|:(?!/))\s*)"
            rf"(?:(?P<quoted>{_QUOTED})|(?P<opening>\\*[\"']?)(?!(?:Bearer|Basic)\s|{_SCHEME}\s+\(|\(){_BARE})",
            re.IGNORECASE,
        ),
        _without_value,
    ),
    (
        re.compile(
            rf"(?P<before>(?<![\w-])--[\w-]*{_OPTION_END}[ \t]+)"
            rf"(?:(?P<quoted>{_QUOTED})|(?P<opening>)(?![-(]){_BARE})",
            re.IGNORECASE,
        ),
        _without_value,
    ),
)
_OPTION: Final = re.compile(rf"--?[\w-]*{_OPTION_END}", re.IGNORECASE)


class Redactor:
    """Removes secrets from documents and texts; `learn` from all documents before any text is asked for."""

    def __init__(self) -> None:
        self._learned: set[str] = set()

    def learn(self, document: Any) -> None:
        """Remember the values of telling names in a document, to remove them wherever they occur."""
        for value in _values(document):
            if len(value) >= LEARNED_LENGTH and value.casefold() not in ("false", "disabled", "enabled"):
                self._learned.add(value)

    def document(self, document: Any) -> Any:
        """A copy of a document of maps, lists and scalars without its secrets."""
        if isinstance(document, Mapping):
            return {
                str(key): self._field(document, str(key), value)
                for key, value in document.items()
                if key not in DROPPED
            }
        if isinstance(document, Sequence) and not isinstance(document, str):
            hidden = set(_after_options(document))
            return [
                REMOVED if position in hidden else self.document(value)
                for position, value in enumerate(document)
            ]
        return self.text(document) if isinstance(document, str) else document

    def _field(self, mapping: Mapping[str, Any], key: str, value: Any) -> Any:
        if _is_secret(mapping, key, value):
            return REMOVED
        return self._listed(value) if _lists_secrets(key, value) else self.document(value)

    def _listed(self, values: Sequence[Any]) -> list[Any]:
        """A list under a telling name: its texts are secrets, objects in it are looked through."""
        return [
            REMOVED
            if isinstance(value, str)
            else self._listed(value)
            if _is_list(value)
            else self.document(value)
            for value in values
        ]

    def text(self, text: str) -> str:
        """A text without its secrets."""
        for value in sorted(self._learned, key=len, reverse=True):
            text = text.replace(value, REMOVED)
        for shape, instead in _SHAPES:
            text = shape.sub(instead, text)
        return text


def is_telling(name: str) -> bool:
    """Whether a variable of this name holds a secret by all appearances: HF_TOKEN, AWS_ACCESS_KEY_ID."""
    words = {word.lower() for word in _WORD.findall(name)}
    if "tokens" in words and words & _COUNTS:
        words.discard("tokens")
    return bool(words & (_TELLING | _KEYS | _OF_A_VARIABLE)) or any(
        word.endswith(_TELLING_ENDINGS) for word in words - _NO_PASS
    )


def _is_telling_field(name: str) -> bool:
    """The same of a field: its last word counts, since `secretName` and `tokenBudget` hold no secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    if words[-1] in _KEYS:
        return bool(_KINDS_OF_KEY & set(words[:-1]))
    return words[-1] in _TELLING


def _is_secret(mapping: Mapping[str, Any], key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool | Mapping) or value in ("", REMOVED):
        return False
    if key == "value" and isinstance(mapping.get("name"), str):
        return is_telling(mapping["name"])
    return isinstance(value, str | int | float) and _is_telling_field(key)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _lists_secrets(key: str, value: Any) -> bool:
    words = [word.lower() for word in _WORD.findall(key)]
    tokens = words[-1:] == ["tokens"] and not _COUNTS & set(words)
    return _is_list(value) and (tokens or _is_telling_field(key))


def _texts(values: Sequence[Any]) -> Iterator[str]:
    """The texts of a list under a telling name, and what is secret in its objects."""
    for value in values:
        if isinstance(value, str):
            yield value
        else:
            yield from _texts(value) if _is_list(value) else _values(value)


def _after_options(values: Sequence[Any]) -> Iterator[int]:
    """The positions of values in a command line that follow an option such as `--token`."""
    for position, option in enumerate(values[:-1]):
        if isinstance(option, str) and _OPTION.fullmatch(option) and isinstance(values[position + 1], str):
            yield position + 1


def _read(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def _values(document: Any) -> Iterator[str]:
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key == LAST_APPLIED:
                yield from _values(_read(value))
            elif _is_secret(document, str(key), value):
                yield str(value)
            elif _lists_secrets(str(key), value):
                yield from _texts(value)
            else:
                yield from _values(value)
    elif isinstance(document, Sequence) and not isinstance(document, str):
        yield from (document[position] for position in _after_options(document))
        for value in document:
            yield from _values(value)

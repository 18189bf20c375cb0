"""Whether an answer follows an instruction of IFEval: by `if-verifiable` where its check is fixed and fast.

Own checks stand in for those that need a download (sentences, capital words), that draw a letter at random,
or that take time with the square of the answer's length. A test holds them against the library's.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dartes.tasks.base import JSON, RowError, UnreadableReferenceError, shorten
from dartes.tasks.ifeval_libraries import libraries

Check: TypeAlias = Callable[[str], bool]
"""Whether an answer, which is not blank, follows one instruction."""

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "keywords:existence": ("keywords",),
    "keywords:frequency": ("keyword", "frequency", "relation"),
    "keywords:forbidden_words": ("forbidden_words",),
    "keywords:letter_frequency": ("letter", "let_frequency", "let_relation"),
    "language:response_language": ("language",),
    "length_constraints:number_sentences": ("num_sentences", "relation"),
    "length_constraints:number_paragraphs": ("num_paragraphs",),
    "length_constraints:number_words": ("num_words", "relation"),
    "length_constraints:nth_paragraph_first_word": ("num_paragraphs", "nth_paragraph", "first_word"),
    "detectable_content:number_placeholders": ("num_placeholders",),
    "detectable_content:postscript": ("postscript_marker",),
    "detectable_format:number_bullet_lists": ("num_bullets",),
    "detectable_format:constrained_response": (),
    "detectable_format:number_highlighted_sections": ("num_highlights",),
    "detectable_format:multiple_sections": ("section_spliter", "num_sections"),
    "detectable_format:json_format": (),
    "detectable_format:title": (),
    "combination:two_responses": (),
    "combination:repeat_prompt": ("prompt_to_repeat",),
    "startend:end_checker": ("end_phrase",),
    "startend:quotation": (),
    "change_case:capital_word_frequency": ("capital_frequency", "capital_relation"),
    "change_case:english_capital": (),
    "change_case:english_lowercase": (),
    "punctuation:no_comma": (),
}
"""The instructions of the benchmark and the arguments that each needs."""

RELATIONS = ("less than", "at least")
_PATTERNS = frozenset({"keywords", "keyword", "forbidden_words", "section_spliter"})
_TEXTS = frozenset({"keywords", "forbidden_words"})
_WORDS = frozenset(
    {
        "keyword",
        "letter",
        "language",
        "first_word",
        "postscript_marker",
        "section_spliter",
        "prompt_to_repeat",
        "end_phrase",
    }
)


def check_of(instruction: str, arguments: Mapping[str, JSON]) -> Check:
    """The check of one instruction with its arguments (null where the benchmark's table has none).

    Raises
    ------
    RowError
        For an instruction that is not the benchmark's, or an argument of the wrong type.
    UnreadableReferenceError
        Where an argument is missing or makes no sense, so that the check would be left to chance.
    """
    if instruction not in ARGUMENTS:
        raise RowError(
            f"column 'instruction_id_list' has an unknown instruction {shorten(instruction)} "
            f"(there are: {', '.join(sorted(ARGUMENTS))})"
        )
    given = {name: _argument(instruction, name, arguments.get(name)) for name in ARGUMENTS[instruction]}
    for name in _PATTERNS.intersection(given):
        _refuse_pattern(instruction, given[name])
    own = _OWN.get(instruction)
    if own is not None:
        return own(given)
    checker = libraries().checkers[instruction](instruction)
    checker.build_description(**given)
    return lambda answer: bool(checker.check_following(answer))


def _argument(instruction: str, name: str, value: JSON) -> Any:
    where = f"column 'kwargs': '{instruction}' needs '{name}'"
    if value is None:
        raise UnreadableReferenceError(f"{where}, which is missing")
    if name.endswith("relation"):
        if value not in RELATIONS:
            raise RowError(f"{where} to be 'less than' or 'at least', not {shorten(value)}")
        return value
    if name in _TEXTS:
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise RowError(f"{where} to be a list of texts, not {shorten(value)}")
        if not value:
            raise UnreadableReferenceError(f"{where}, which is empty")
        return list(value)
    if name in _WORDS:
        if not isinstance(value, str):
            raise RowError(f"{where} to be text, not {shorten(value)}")
        if not value.strip():
            raise UnreadableReferenceError(f"{where}, which is empty")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise RowError(f"{where} to be a whole number, not {shorten(value)}")
    if value < 0:
        raise UnreadableReferenceError(f"{where} to be 0 or more, not {shorten(value)}")
    return int(value)


def _refuse_pattern(instruction: str, texts: str | list[str]) -> None:
    """The library searches for these texts as patterns; one that is none would raise for every answer."""
    for text in [texts] if isinstance(texts, str) else texts:
        try:
            re.compile(text)
        except re.error as error:
            raise UnreadableReferenceError(
                f"column 'kwargs': '{instruction}' searches for {shorten(text)}, which is no pattern: {error}"
            ) from error


def _holds(relation: str, count: int, limit: int) -> bool:
    return count < limit if relation == RELATIONS[0] else count >= limit


def _letters(given: Mapping[str, Any]) -> Check:
    letter, limit, relation = given["letter"].strip().lower(), given["let_frequency"], given["let_relation"]
    if len(letter) != 1:
        raise UnreadableReferenceError("column 'kwargs': 'letter' must be one character")
    return lambda answer: _holds(relation, answer.lower().count(letter), limit)


def _sentences(given: Mapping[str, Any]) -> Check:
    count = libraries().count_sentences
    return lambda answer: _holds(given["relation"], count(answer), given["num_sentences"])


def _capital_words(given: Mapping[str, Any]) -> Check:
    tokens = libraries().tokens
    return lambda answer: _holds(
        given["capital_relation"],
        sum(token.isupper() for token in tokens(answer)),
        given["capital_frequency"],
    )


def _language(given: Mapping[str, Any]) -> Check:
    detect = libraries().detect_language
    return lambda answer: detect(answer) == given["language"]


def _english_in(case: Callable[[str], bool]) -> Callable[[Mapping[str, Any]], Check]:
    def check(given: Mapping[str, Any]) -> Check:
        del given
        detect = libraries().detect_language
        return lambda answer: case(answer) and detect(answer) == "en"

    return check


def _placeholders(given: Mapping[str, Any]) -> Check:
    def count(line: str) -> int:
        found, start = 0, line.find("[")
        while start >= 0:
            end = line.find("]", start)
            if end < 0:
                break
            found += 1
            start = line.find("[", end)
        return found

    return lambda answer: sum(map(count, answer.split("\n"))) >= given["num_placeholders"]


# As the benchmark's two patterns, but with no blanks of earlier lines in a match: that takes quadratic time.
_STAR_BULLET = re.compile(r"^[^\S\n]*\*[^\*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^[^\S\n]*-.*$", re.MULTILINE)


def _bullets(given: Mapping[str, Any]) -> Check:
    wanted = given["num_bullets"]
    return lambda answer: sum(len(p.findall(answer)) for p in (_STAR_BULLET, _DASH_BULLET)) == wanted


_POSTSCRIPTS = {"P.P.S": re.compile(r"p\.\s?p\.\s?s"), "P.S.": re.compile(r"p\.\s?s\.")}


def _postscript(given: Mapping[str, Any]) -> Check:
    marker = given["postscript_marker"].strip()
    pattern = _POSTSCRIPTS.get(marker, re.compile(re.escape(marker.lower())))
    return lambda answer: pattern.search(answer.lower()) is not None


def _title(given: Mapping[str, Any]) -> Check:
    del given

    def in_line(line: str) -> bool:
        start, end = line.find("<<"), line.rfind(">>")
        # The longest stretch between the first << and the last >>, with something in it that is no bracket.
        return start >= 0 and end >= start + 3 and bool(line[start : end + 2].lstrip("<").rstrip(">").strip())

    return lambda answer: any(map(in_line, answer.split("\n")))


def _paragraph_word(given: Mapping[str, Any]) -> Check:
    if not 1 <= given["nth_paragraph"] <= given["num_paragraphs"]:
        raise UnreadableReferenceError(
            f"column 'kwargs': 'nth_paragraph' must be from 1 to {given['num_paragraphs']}"
        )
    checker = libraries().checkers["length_constraints:nth_paragraph_first_word"]("")
    checker.build_description(**given)
    return lambda answer: bool(checker.check_following(answer))


_FENCES = ("```json", "```Json", "```JSON", "```")


def _json(given: Mapping[str, Any]) -> Check:
    del given

    def follows(answer: str) -> bool:
        text = answer.strip()
        for fence in _FENCES:
            text = text.removeprefix(fence)
        try:
            json.loads(text.removesuffix("```").strip())
        except (ValueError, RecursionError):
            return False
        return True

    return follows


_OWN: Mapping[str, Callable[[Mapping[str, Any]], Check]] = {
    "keywords:letter_frequency": _letters,
    "language:response_language": _language,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:nth_paragraph_first_word": _paragraph_word,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:json_format": _json,
    "detectable_format:title": _title,
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": _english_in(str.isupper),
    "change_case:english_lowercase": _english_in(str.islower),
}

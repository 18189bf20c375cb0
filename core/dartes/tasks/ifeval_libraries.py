"""Loads what IFEval's checks are made of: `if-verifiable`'s checkers, `langdetect` and `nltk`'s tokenizers.

Nothing is downloaded and nothing drawn at random, so an answer gets the same grade on every machine.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from dartes.errors import ConfigurationError

_ABBREVIATIONS = """
mr mrs ms dr prof st jr sr inc ltd co corp vs etc e.g i.e a.m p.m u.s u.k ph.d no gen gov rev capt lt col sgt
fig vol dept est approx jan feb mar apr jun jul aug sep sept oct nov dec
"""
"""Words whose full stop ends no sentence, without that stop."""


@dataclass(frozen=True, slots=True)
class Libraries:
    """The modules that the checks are made of."""

    checkers: Mapping[str, Any]
    detect_language: Callable[[str], str]
    count_sentences: Callable[[str], int]
    tokens: Callable[[str], list[str]]


@cache
def libraries() -> Libraries:
    """Load them once; raises `ConfigurationError` where they are not installed.

    None of them reads a file that is not part of its package, and the language detector draws from a fixed
    seed, so an answer always gets the same grade.
    """
    try:
        registry = _without_its_loader("if_verifiable", "ifeval.instructions_registry")
        detector = import_module("langdetect")
        punkt = import_module("nltk.tokenize.punkt")
        words = import_module("nltk.tokenize.destructive").NLTKWordTokenizer()
    except ImportError as error:
        raise ConfigurationError(
            f"task.kind: task 'ifeval' needs the if-verifiable library ({error}); "
            "install it with: pip install '.[tasks]' in a clone"
        ) from error
    detector.DetectorFactory.seed = 0
    detector.detect("Load the language profiles before an answer is timed.")
    settings = punkt.PunktParameters()
    settings.abbrev_types = set(_ABBREVIATIONS.split())
    sentences = punkt.PunktSentenceTokenizer(settings)

    def detect(text: str) -> str:
        try:
            return str(detector.detect(text))
        except detector.LangDetectException:
            return ""

    return Libraries(
        registry.INSTRUCTION_DICT, detect, lambda text: len(sentences.tokenize(text)), words.tokenize
    )


def _without_its_loader(package: str, module: str) -> ModuleType:
    """Import a module of a package without running the package's own `__init__`.

    That one imports the `datasets` library, which writes files and takes more memory than a grader may.
    """
    if package in sys.modules:
        return import_module(f"{package}.{module}")
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"No module named '{package}'")
    bare = ModuleType(package)
    bare.__path__ = list(spec.submodule_search_locations)
    sys.modules[package] = bare
    try:
        return import_module(f"{package}.{module}")
    finally:
        del sys.modules[package]

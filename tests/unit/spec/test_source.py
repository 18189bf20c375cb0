"""Sources: one spelling for places, with the nearest right one where it is wrong."""

from pathlib import Path

import pytest

from dartes.spec import Scheme, Source, parse_source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("builtin://addition", Source(Scheme.BUILTIN, "addition")),
        ("builtin://reasoning-gym-word_sorting", Source(Scheme.BUILTIN, "reasoning-gym-word_sorting")),
        ("hf://org/name", Source(Scheme.HUB, "org/name")),
        ("hf://gpt2", Source(Scheme.HUB, "gpt2")),
        ("hf://datasets/openai/gsm8k", Source(Scheme.HUB, "datasets/openai/gsm8k")),
        (
            "hf://datasets/openai/gsm8k@v1.0/main",
            Source(Scheme.HUB, "datasets/openai/gsm8k", "v1.0/main"),
        ),
        ("hf://datasets/gsm8k", Source(Scheme.HUB, "datasets/gsm8k")),
        ("hf://datasets/openai/gsm8k@main", Source(Scheme.HUB, "datasets/openai/gsm8k", "main")),
        ("hf://datasets/o/n@refs/pr/1", Source(Scheme.HUB, "datasets/o/n", "refs/pr/1")),
        ("hf://datasets/o/n@" + "0a" * 20, Source(Scheme.HUB, "datasets/o/n", "0a" * 20)),
        ("file:///a/b%20c", Source(Scheme.FILE, "/a/b c")),
        ("models/x%20y", Source(Scheme.FILE, "models/x%20y")),
        ("pvc://claim/path", Source(Scheme.PVC, "claim/path")),
    ],
)
def test_sources_are_split(text: str, source: Source) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hff://a/b", "did you mean hf://?"),
        ("HF://a/b", "did you mean hf://?"),
        ("file://", "nothing follows file://"),
        ("hf://a/../b", "not a repository's name"),
        ("hf://datasets/a/b@", "not a revision after the @"),
        ("hf://datasets/a/b@ma in", "not a revision after the @"),
        ("hf://a/b@main", "not a repository's name"),
        ("hf://datasets/a/b@x@y", "not a revision after the @"),
        ("hf://datasets", "not a repository's name"),
        ("builtin://Addition", "not a built-in's name"),
        (" ", "must not be empty"),
    ],
)
def test_a_wrong_source_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        parse_source(text)


def test_relative_paths_start_at_the_job_file() -> None:
    assert parse_source("a/b").path(Path("/jobs")) == Path("/jobs/a/b")
    assert parse_source("/a/b").path(Path("/jobs")) == Path("/a/b")
    assert parse_source("file:///a/b").path(Path("/jobs")) == Path("/a/b")

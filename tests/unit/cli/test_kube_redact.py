"""Secrets are taken out by their names and shapes, and what an engineer needs stays readable."""

import time
from typing import Any

import pytest

from dartes.cli.kube.redact import REMOVED, Redactor, is_telling

PLAIN = "correct-horse-battery"
BEGINNINGS = (
    *("password='" * 100_000, 'token=\\"' * 120_000, "password=" + "a," * 500_000, "password=" + "," * 2**20),
    *("--" * 500_000, "--token " * 130_000, "--token" + " " * 2**20, "--" + "token" * 200_000),
    *("authorization: " * 70_000, "authorization: a " * 60_000, "bearer " * 150_000),
    *("authorization:" + " " * 2**20, "password" + " " * 2**20, "password: Token" + " " * 2**20),
    'password="' + "\\a" * 500_000,
)
"""What the shapes of values begin with, again and again."""


def text(given: str) -> str:
    return Redactor().text(given)


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "apiKey"),
        *("OPENAI_APIKEY", "GOOGLE_APPLICATION_CREDENTIALS", "REGISTRY_AUTH", "WANDB_API_KEY", "SENTRY_DSN"),
        *("DB_PASS", "SMTP_PASS", "SSHPASS", "PGPASSWORD", "API_TOKENS", "HFTOKEN"),
    ],
)
def test_a_name_that_tells_of_a_secret_is_known(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name",
    [
        *("HF_HOME", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "DARTES_POD", "HTTPS_PROXY", "PATH"),
        *("MONKEYS", "VLLM_MAX_NUM_BATCHED_TOKENS", "maxNewTokens", "BYPASS_CACHE", "COMPASS", "PASSES"),
    ],
)
def test_a_name_that_tells_of_none_is_left(name: str) -> None:
    assert not is_telling(name)


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "aB3" * 11,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + "x1" * 18,
        "github_pat_" + "x1_" * 10,
        "glpat-" + "x1" * 10,
        "sk-" + "proj-" + "x1" * 12,
        "xoxb-" + "1234-5678-abcd",
        "AIza" + "Sy" * 18,
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "c2lnbmF0dXJl",
    ],
)
def test_a_token_of_a_known_shape_goes_wherever_it_stands(secret: str) -> None:
    for around in (f"got {secret} from", f'"{secret}"', f"x={secret}", f"({secret})", f"a\n{secret}\nb"):
        found = text(around)
        assert secret not in found
        assert REMOVED in found


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        (f"password={PLAIN}", "password="),
        (f"db password: {PLAIN} is wrong", "is wrong"),
        (f'{{"hf_token": "{PLAIN}"}}', '"hf_token"'),
        (rf"env {{\"apiToken\": \"{PLAIN}\", \"a\": 1}}", r"\"a\": 1"),
        (f"AWS_SECRET_ACCESS_KEY={PLAIN} python", "python"),
        (f"--api-key={PLAIN} --verbose", "--verbose"),
        (f"Authorization: Bearer {PLAIN}", "Authorization: Bearer"),
        (f"GET https://user:{PLAIN}@proxy.example.com:3128/", "proxy.example.com:3128"),
        (f"clone https://{PLAIN}@git.example.com/x", "git.example.com/x"),
        (f"https://b.example.com/m?X-Amz-Signature={PLAIN}&X-Amz-Expires=60", "X-Amz-Expires=60"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{PLAIN}\n-----END RSA PRIVATE KEY-----\nend", "\nend"),
        (f"-----BEGIN PRIVATE KEY-----\n{PLAIN}", REMOVED),
        (
            f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{PLAIN}\n-----END PGP PRIVATE KEY BLOCK-----\nend",
            "\nend",
        ),
        (f"https://hooks.slack.com/services/T0/B0/{PLAIN} said 404", "said 404"),
        (f"authorization: bearer {PLAIN} sent", "authorization: bearer"),
        (f"authorization: basic {PLAIN}", "authorization: basic"),
        (f"sent bearer {PLAIN} to", " to"),
        (f"Authorization: Token {PLAIN} sent", f"Authorization: Token {REMOVED} sent"),
        (f'"Authorization": ["Token {PLAIN}"], "a": 1', f'["Token {REMOVED}"], "a": 1'),
        (f"Authorization: {PLAIN} status=200", "status=200"),
        (f"Authorization: Custom {PLAIN}", "Authorization:"),
        (f"{{'Authorization': 'Token {PLAIN}', 'a': 1}}", "'a': 1"),
        (f"sh -c 'prog --password {PLAIN} --workers 4'", "--workers 4"),
        (f"prog --license-key {PLAIN}", "--license-key"),
        (f"prog --password '{PLAIN} x' --workers 4", "--workers 4"),
        (f"password=ab,{PLAIN} python", "python"),
        (f"password=ab,{PLAIN},user=me", ",user=me"),
        (f"password: 'p4ss&{PLAIN} x' is wrong", "' is wrong"),
        (f'{{"password": "p4ss}}&{PLAIN}", "a": 1}}', '"a": 1'),
        (f'password="a\\"b {PLAIN}" user=me', '" user=me'),
        (f"password=basic-{PLAIN} python", "python"),
    ],
)
def test_a_value_that_is_named_as_a_secret_goes_and_the_words_around_it_stay(line: str, stays: str) -> None:
    found = text(line)
    assert PLAIN not in found
    assert stays in found


@pytest.mark.parametrize(
    "line",
    [
        "iteration 12 committed: pass rate 0.413, in 4.120 s",
        'secret "hub-token" not found',
        "couldn't find key token in Secret lab/hub",
        "dartes_worker_generated_tokens_total 265026.0",
        "registry.example.com/mirror/dartes/worker@sha256:" + "ab" * 32,
        "generated tokens: 265026",
        "weight digest 5f3a9c21" + "0f" * 28,
        "hf://datasets/org/name@main",
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "tokenBudget: 16384",
        "maxNewTokens: 1024",
        "vllm serve --max-num-batched-tokens 16384 --token-budget 16384",
        "a basic understanding of basic arithmetic, and bearer instruments.",
        "password: ab, user: me",
    ],
)
def test_ordinary_lines_stay_word_for_word(line: str) -> None:
    assert text(line) == line


def test_values_of_telling_names_go_from_documents_and_references_stay() -> None:
    given: dict[str, Any] = {
        "env": [
            {"name": "API_TOKEN", "value": PLAIN},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
            {"name": "HF_HOME", "value": "/var/cache"},
        ],
        "options": {"password": PLAIN, "tokenBudget": 16384, "pin": {"secretName": "x-tls-worker"}},
        "args": ["--password", PLAIN, "--workers", "4"],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "automountServiceAccountToken": False,
        "imagePullSecrets": [{"name": "regcred"}],
    }
    assert Redactor().document(given) == {
        "env": [{"name": "API_TOKEN", "value": REMOVED}, *given["env"][1:]],
        "options": {"password": REMOVED, "tokenBudget": 16384, "pin": {"secretName": "x-tls-worker"}},
        "args": ["--password", REMOVED, "--workers", "4"],
        "tolerations": given["tolerations"],
        "automountServiceAccountToken": False,
        "imagePullSecrets": given["imagePullSecrets"],
    }


def test_texts_in_a_list_under_a_telling_name_go_and_are_learned() -> None:
    given: dict[str, Any] = {
        "passwords": [PLAIN, [PLAIN]],
        "tokens": [PLAIN],
        "headers": {"Authorization": [f"Token {PLAIN}"]},
        "token_ids": [1, 2],
        "maxTokens": ["16"],
        "stopTokens": ["</s>"],
        "secrets": [{"name": "hub", "password": PLAIN}],
    }
    redactor = Redactor()
    redactor.learn(given)
    assert redactor.text(f"asked with {PLAIN}") == f"asked with {REMOVED}"
    assert Redactor().document(given) == {
        **given,
        "passwords": [REMOVED, [REMOVED]],
        "tokens": [REMOVED],
        "headers": {"Authorization": [REMOVED]},
        "secrets": [{"name": "hub", "password": REMOVED}],
    }


def test_numbers_in_a_list_called_tokens_stay() -> None:
    assert Redactor().document({"tokens": [101, 2009]}) == {"tokens": [101, 2009]}


def test_what_was_last_applied_goes_whole() -> None:
    metadata = {
        "name": "tiny",
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"x": 1}', "a": "b"},
    }
    assert Redactor().document(metadata) == {"name": "tiny", "annotations": {"a": "b"}}


def test_a_learned_value_is_found_again_in_a_log() -> None:
    redactor = Redactor()
    redactor.learn(
        {"env": [{"name": "REWARD_TOKEN", "value": PLAIN}], "command": ["x", "--token", "seven77"]}
    )
    assert redactor.text(f"asked with {PLAIN} and seven77") == f"asked with {REMOVED} and {REMOVED}"


def test_a_short_value_is_not_looked_for_in_other_words() -> None:
    redactor = Redactor()
    redactor.learn({"env": [{"name": "API_TOKEN", "value": "on"}]})
    assert redactor.text("iteration") == "iteration"


def test_a_megabyte_of_anything_takes_seconds_at_most() -> None:
    began = time.process_time()
    for given in ("a" * 2**20, "_-." * 350_000, "token" * 200_000, "://" * 350_000, "eyJ." * 250_000):
        text(given)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("given", BEGINNINGS, ids=lambda given: given[:16])
def test_beginnings_of_values_without_end_are_looked_at_once(given: str) -> None:
    began = time.process_time()
    text(given[: 2**18])
    assert time.process_time() - began < 5

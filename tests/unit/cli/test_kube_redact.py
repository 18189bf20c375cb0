"""Secrets are taken out by their names and shapes, and what an engineer needs stays readable."""

import time
from typing import Any

import pytest

from dartes.cli.kube.redact import REMOVED, Redactor, is_telling

PLAIN = "correct-horse-battery"


def text(given: str) -> str:
    return Redactor().text(given)


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "apiKey"),
        *("OPENAI_APIKEY", "GOOGLE_APPLICATION_CREDENTIALS", "REGISTRY_AUTH", "WANDB_API_KEY", "SENTRY_DSN"),
    ],
)
def test_a_name_that_tells_of_a_secret_is_known(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name",
    ["HF_HOME", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "DARTES_POD", "HTTPS_PROXY", "PATH", "MONKEYS"],
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

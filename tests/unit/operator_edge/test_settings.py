"""The operator's environment: what is read, and what is refused with which words."""

import json
import logging
from typing import Any

import pytest

from dartes.errors import ConfigurationError
from dartes_operator.settings import read_settings

DEFAULTS: dict[str, Any] = {
    "images": {"coordinator": "r/coordinator:1", "worker": "r/worker:1", "workerVllm": "r/vllm:1"},
    "pullPolicy": "Always",
    "pullSecrets": ["first", {"name": "second"}],
    "tolerations": [{"key": "gpu"}],
    "nodeSelector": {"pool": "a"},
}


def environment(**changes: str) -> dict[str, str]:
    given = {"POD_NAMESPACE": "dartes-system", "DARTES_DEFAULTS": json.dumps(DEFAULTS), **changes}
    return {name: value for name, value in given.items() if value != "unset"}


def test_what_the_chart_sets_is_read() -> None:
    settings = read_settings(
        environment(DARTES_WATCH_NAMESPACES="a, b,a,", DARTES_LOG_LEVEL="DEBUG", DARTES_HTTP="[::]:9090")
    )
    assert settings.namespaces == ("a", "b")
    assert settings.log_level == logging.DEBUG
    assert (settings.http_host, settings.http_port) == ("[::]", 9090)
    assert settings.defaults.vllm_image == "r/vllm:1"
    assert settings.defaults.pull_policy == "Always"
    assert settings.defaults.pull_secrets == ("first", "second")
    assert settings.defaults.tolerations == ({"key": "gpu"},)
    assert settings.defaults.node_selector == {"pool": "a"}
    assert settings.defaults.operator_namespace == "dartes-system"


@pytest.mark.parametrize("given", ["JSON", "Text", "json"])
def test_the_log_format_is_read_in_any_case(given: str) -> None:
    read_settings(environment(DARTES_LOG_FORMAT=given))


def test_no_namespaces_means_the_whole_cluster() -> None:
    assert read_settings(environment()).namespaces == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"POD_NAMESPACE": "unset"}, "POD_NAMESPACE is not set"),
        ({"DARTES_HTTP": "8080"}, "DARTES_HTTP is '8080'; it must be host:port"),
        ({"DARTES_HTTP": "0.0.0.0:99999"}, "must be host:port"),
        ({"DARTES_LOG_LEVEL": "loud"}, "allowed are debug, info, warning, error"),
        ({"DARTES_LOG_FORMAT": "xml"}, "allowed are json, text"),
        ({"DARTES_DEFAULTS": "unset"}, "must be a JSON object that holds at least"),
        ({"DARTES_DEFAULTS": "{"}, "DARTES_DEFAULTS is not JSON"),
        ({"DARTES_DEFAULTS": "[]"}, "must be a JSON object"),
        ({"DARTES_DEFAULTS": json.dumps({**DEFAULTS, "image": 1})}, "holds image; known are images"),
        ({"DARTES_DEFAULTS": json.dumps({**DEFAULTS, "images": {}})}, r"images.coordinator is None"),
        ({"DARTES_DEFAULTS": json.dumps({**DEFAULTS, "images": 3})}, "DARTES_DEFAULTS.images is 3"),
        ({"DARTES_DEFAULTS": json.dumps({**DEFAULTS, "pullPolicy": "No"})}, "pullPolicy is 'No'"),
        ({"DARTES_DEFAULTS": json.dumps({**DEFAULTS, "pullSecrets": [3]})}, "pullSecrets holds 3"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_settings(environment(**changes))

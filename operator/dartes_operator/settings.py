"""The operator's own settings, read from the environment once, at start.

Knows names, defaults and bounds of the variables; knows nothing of what they are used for.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dartes.errors import ConfigurationError
from dartes_operator.plan.types import Defaults

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FORMATS = ("json", "text")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_IMAGES = ("coordinator", "worker", "workerVllm")
_DEFAULTS_KEYS = ("images", "pullPolicy", "pullSecrets", "tolerations", "nodeSelector")


@dataclass(frozen=True)
class Settings:
    """What the chart sets; no namespaces means the whole cluster."""

    namespaces: tuple[str, ...]
    log_level: int
    http_host: str
    http_port: int
    pod_name: str
    defaults: Defaults


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; ConfigurationError names the variable, its value and what is allowed."""
    host, port = _address(environment.get("DARTES_HTTP", "0.0.0.0:8080"))
    namespace = environment.get("POD_NAMESPACE", "")
    if not namespace:
        raise ConfigurationError(
            "POD_NAMESPACE is not set: it must name the operator's own namespace, which network policies "
            "let in to the coordinators"
        )
    log_format = environment.get("DARTES_LOG_FORMAT", "json")
    if log_format.lower() not in _FORMATS:
        raise ConfigurationError(f"DARTES_LOG_FORMAT is {log_format!r}; allowed are {', '.join(_FORMATS)}")
    level = environment.get("DARTES_LOG_LEVEL", "info").lower()
    if level not in _LEVELS:
        raise ConfigurationError(f"DARTES_LOG_LEVEL is {level!r}; allowed are {', '.join(_LEVELS)}")
    named = environment.get("DARTES_WATCH_NAMESPACES", "").split(",")
    return Settings(
        namespaces=tuple(dict.fromkeys(name.strip() for name in named if name.strip())),
        log_level=_LEVELS[level],
        http_host=host,
        http_port=port,
        pod_name=environment.get("POD_NAME") or environment.get("HOSTNAME", "dartes-operator"),
        defaults=_defaults(environment.get("DARTES_DEFAULTS", ""), namespace),
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"DARTES_HTTP is {text!r}; it must be host:port, such as 0.0.0.0:8080")
    return host, int(port)


def _defaults(text: str, namespace: str) -> Defaults:
    try:
        given = json.loads(text) if text else None
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"DARTES_DEFAULTS is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigurationError(
            "DARTES_DEFAULTS must be a JSON object that holds at least "
            '{"images": {"coordinator": ..., "worker": ..., "workerVllm": ...}}'
        )
    _refuse_unknown("DARTES_DEFAULTS", given, _DEFAULTS_KEYS)
    images = given.get("images") or {}
    _refuse_unknown("DARTES_DEFAULTS.images", images, _IMAGES)
    for role in _IMAGES:
        if not isinstance(images.get(role), str) or not images[role]:
            raise ConfigurationError(
                f"DARTES_DEFAULTS.images.{role} is {images.get(role)!r}; it must name an image"
            )
    policy = given.get("pullPolicy") or "IfNotPresent"
    if policy not in _PULL_POLICIES:
        raise ConfigurationError(
            f"DARTES_DEFAULTS.pullPolicy is {policy!r}; allowed are {', '.join(_PULL_POLICIES)}"
        )
    return Defaults(
        coordinator_image=images["coordinator"],
        worker_image=images["worker"],
        vllm_image=images["workerVllm"],
        operator_namespace=namespace,
        pull_policy=policy,
        pull_secrets=tuple(_secret_name(secret) for secret in given.get("pullSecrets") or ()),
        tolerations=tuple(given.get("tolerations") or ()),
        node_selector=dict(given.get("nodeSelector") or {}),
    )


def _secret_name(secret: Any) -> str:
    name = secret.get("name") if isinstance(secret, dict) else secret
    if not isinstance(name, str) or not name:
        raise ConfigurationError(
            f"DARTES_DEFAULTS.pullSecrets holds {secret!r}; allowed are names of Secrets"
        )
    return name


def _refuse_unknown(where: str, given: Any, known: tuple[str, ...]) -> None:
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} is {given!r}; it must be a JSON object")
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigurationError(f"{where} holds {', '.join(unknown)}; known are {', '.join(known)}")

"""The guard's part on rights: host namespaces, root, privileges, capabilities and calls from the node.

The rules are those of PodSecurity `restricted`, so that a job passes where that level is enforced, and is
held to it where nothing enforces it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_SELINUX_TYPES: Final = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_CALLS: Final = ("httpGet", "tcpSocket")
_REFUSED_CONTEXT: Final = {
    "privileged": (True,),
    "allowPrivilegeEscalation": (True,),
    "runAsNonRoot": (False,),
    "runAsUser": (0,),
}


def pod_security(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield what a pod spec asks for beyond `restricted`, as `path: why`."""
    for key in _HOST:
        if spec.get(key):
            yield f"{path}.{key}: not allowed; pods stay out of the node's namespaces"
    yield from _context_problems(spec.get("securityContext"), f"{path}.securityContext")


def container_security(container: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield what a container asks for beyond `restricted`, as `path: why`."""
    yield from _context_problems(container.get("securityContext"), f"{path}.securityContext")


def annotation_security(key: str, path: str) -> Iterator[str]:
    """Yield why an annotation is refused that sets a container's rights, as `path: why`."""
    if key.startswith(_APPARMOR_ANNOTATION):
        yield f"{path}: not allowed; use securityContext.appArmorProfile"


def call_problems(container: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield every probe and hook that calls another host: the kubelet would call it from the node."""
    lifecycle = container.get("lifecycle")
    hooks = lifecycle if isinstance(lifecycle, Mapping) else {}
    handlers = {
        **{f"{path}.{name}": container.get(name) for name in _PROBES},
        **{f"{path}.lifecycle.{name}": hooks.get(name) for name in _HOOKS},
    }
    for where, handler in handlers.items():
        if not isinstance(handler, Mapping):
            continue
        for call in _CALLS:
            target = handler.get(call)
            if isinstance(target, Mapping) and target.get("host"):
                yield f"{where}.{call}.host: not allowed; the node calls it; leave it out to call the pod"


def restart_rule_problems(value: Any, path: str) -> Iterator[str]:
    """Yield the rules by which one container's end would start all of the pod's again, dartes' too."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return
    for position, rule in enumerate(value):
        if isinstance(rule, Mapping) and rule.get("action") == "RestartAllContainers":
            yield (
                f"{path}[{position}].action: RestartAllContainers is not allowed; the operator itself starts "
                "pods again"
            )


def _context_problems(context: Any, path: str) -> Iterator[str]:
    if context is None:
        return
    if not isinstance(context, Mapping):
        yield f"{path}: not a map"
        return
    for key, refused in _REFUSED_CONTEXT.items():
        if key in context and any(context[key] is value for value in refused):
            yield f"{path}.{key}: {_word(context[key])} is not allowed"
    capabilities = context.get("capabilities")
    if isinstance(capabilities, Mapping):
        if capabilities.get("add"):
            yield f"{path}.capabilities.add: not allowed; pods run without capabilities"
    elif capabilities is not None:
        yield f"{path}.capabilities: not a map"
    if context.get("procMount") not in (None, "Default"):
        yield f"{path}.procMount: not allowed; only Default"
    if context.get("sysctls"):
        yield f"{path}.sysctls: not allowed"
    if context.get("windowsOptions") is not None:
        yield f"{path}.windowsOptions: not allowed; pods run on Linux"
    yield from _selinux_problems(context.get("seLinuxOptions"), f"{path}.seLinuxOptions")
    for key in ("seccompProfile", "appArmorProfile"):
        profile = context.get(key)
        if isinstance(profile, Mapping):
            kind = profile.get("type")
            if kind not in _PROFILES:
                yield f"{path}.{key}.type: {kind} is not allowed; allowed: {' or '.join(_PROFILES)}"
        elif profile is not None:
            yield f"{path}.{key}: not a map"


def _selinux_problems(options: Any, path: str) -> Iterator[str]:
    if options is None:
        return
    if not isinstance(options, Mapping):
        yield f"{path}: not a map"
        return
    kind = options.get("type")
    # Kubernetes takes an empty text for unset.
    if kind not in (None, "", *_SELINUX_TYPES):
        yield f"{path}.type: {kind} is not allowed; allowed: {', '.join(_SELINUX_TYPES)}"
    for key in ("user", "role"):
        if options.get(key):
            yield f"{path}.{key}: not allowed; leave it to the node"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""The guard's part on rights: host namespaces, root, privileges and capabilities.

The rules are those of PodSecurity `restricted`, so that a job passes where that level is enforced, and is
held to it where nothing enforces it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
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
    for key in ("seccompProfile", "appArmorProfile"):
        profile = context.get(key)
        if isinstance(profile, Mapping):
            kind = profile.get("type")
            if kind not in _PROFILES:
                yield f"{path}.{key}.type: {kind} is not allowed; allowed: {' or '.join(_PROFILES)}"
        elif profile is not None:
            yield f"{path}.{key}: not a map"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

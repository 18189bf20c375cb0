"""The cache of models and compiled kernels in worker and export pods, and the variables that lead there."""

from typing import Any, Final

from dartes.spec.model import ModelCache
from dartes_operator.resources.pod import Mount, empty_dir, env

CACHE_PATH: Final = "/var/cache/dartes"
HUB_PATH: Final = f"{CACHE_PATH}/hub"

_FOLDERS: Final = {
    "HF_HOME": HUB_PATH,
    "HOME": f"{CACHE_PATH}/home",
    "XDG_CACHE_HOME": f"{CACHE_PATH}/xdg",
    "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/inductor",
    "VLLM_CACHE_ROOT": f"{CACHE_PATH}/vllm",
}

_VLLM: Final = {
    "VLLM_CONFIG_ROOT": f"{CACHE_PATH}/vllm-config",
    # It would tell its makers that it is used, and on what.
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def cache_env() -> tuple[dict[str, Any], ...]:
    """Where libraries keep what they download or compile; the root file system is read-only."""
    return tuple(env(name, path) for name, path in _FOLDERS.items())


def vllm_env() -> tuple[dict[str, Any], ...]:
    """What vLLM needs beyond `cache_env`, in whatever image it is: a folder of its own, and silence."""
    return tuple(env(name, value) for name, value in _VLLM.items())


def cache_mounts(cache: ModelCache | None, pull_policy: str) -> tuple[Mount, ...]:
    """The pod's own cache and, where the job names one, the claim or image that holds the models."""
    if cache is not None and cache.empty_dir is not None:
        return (empty_dir("cache", CACHE_PATH, sizeLimit=str(cache.empty_dir.size_limit)),)
    mounts = [empty_dir("cache", CACHE_PATH)]
    if cache is not None and cache.claim_name is not None:
        mounts.append(
            Mount("model-cache", HUB_PATH, {"persistentVolumeClaim": {"claimName": cache.claim_name}})
        )
    if cache is not None and cache.image is not None:
        image = {"image": {"reference": cache.image, "pullPolicy": pull_policy}}
        mounts.append(Mount("model-cache", HUB_PATH, image, read_only=True))
    return tuple(mounts)

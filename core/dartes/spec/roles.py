"""`spec.coordinator` and `spec.workers`: how many processes, of which engine, and where their pods go.

Core Kubernetes types are carried as plain data: the API server and the operator know their shape, this
model does not.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue, Strict

from dartes.spec.base import (
    Boolean,
    Integer,
    LabelKey,
    LabelValue,
    Mutability,
    Quantity,
    Real,
    Refusal,
    SecretName,
    SpecModel,
    Text,
    about,
)

SUSPENDED = Mutability.SUSPENDED
ANY_TIME = Mutability.ANY_TIME

NO_HOST_PATH = (
    "hostPath reaches the files of a node: mount a persistentVolumeClaim, an image or an emptyDir instead"
)
NO_TOKEN = "training pods hold no API token: remove serviceAccountToken"

CoreObject = Annotated[dict[Annotated[str, Strict(), Field(max_length=317)], JsonValue], Field(max_length=64)]
ResourceMap = dict[Annotated[str, Strict(), Field(min_length=1, max_length=317)], Quantity]


class EngineKind(StrEnum):
    """What generates the answers."""

    TRANSFORMERS = "Transformers"
    VLLM = "VLLM"


class MasterPlacement(StrEnum):
    """Where a worker keeps the Float32 master weights."""

    DEVICE = "Device"
    HOST = "Host"


class EngineOptions(SpecModel):
    """Settings of the VLLM engine, under vLLM's own words."""

    tensor_parallel_size: Annotated[
        Integer | None,
        about("GPUs that share one model; gpusPerWorker if not set.", ge=1, le=64),
    ] = None
    gpu_memory_utilization: Annotated[
        Real, about("Share of the GPU's memory that the engine may take.", gt=0, le=1)
    ] = 0.9
    max_model_len: Annotated[
        Integer | None, about("Longest prompt and answer together, in tokens.", ge=1, le=16_777_216)
    ] = None
    kv_cache_dtype: Annotated[
        Text, about("Number format of the KV cache, such as auto or fp8.", min_length=1, max_length=63)
    ] = "auto"
    batch_invariant: Annotated[
        Boolean, about("Make answers independent of what shares a batch; slower, and repeatable.")
    ] = False
    master_placement: Annotated[
        MasterPlacement | None,
        about("Where the master weights are kept: Device or Host; where the memory suffices if not set."),
    ] = None


class ResourceRequirements(SpecModel):
    """Requests and limits of a container."""

    requests: Annotated[ResourceMap, about("What the scheduler sets aside.", max_length=32)] = Field(
        default_factory=dict
    )
    limits: Annotated[ResourceMap, about("What the container may not exceed.", max_length=32)] = Field(
        default_factory=dict
    )


class PodPlacement(SpecModel):
    """What both roles have in common: the image and everything that places and furnishes a pod."""

    image: Annotated[
        Text | None,
        about("Container image; the operator's own if not set.", SUSPENDED, min_length=1, max_length=512),
    ] = None
    resources: Annotated[
        ResourceRequirements, about("CPU and memory; GPUs come from gpusPerWorker.", SUSPENDED)
    ] = ResourceRequirements()
    node_selector: Annotated[
        dict[LabelKey, LabelValue], about("Labels that a node must have.", SUSPENDED, max_length=64)
    ] = Field(default_factory=dict)
    tolerations: Annotated[
        tuple[CoreObject, ...],
        about("Taints that the pods tolerate.", SUSPENDED, max_length=32, core_type="Toleration"),
    ] = ()
    affinity: Annotated[
        CoreObject, about("Affinity of the pods.", SUSPENDED, max_length=64, core_type="Affinity")
    ] = Field(default_factory=dict)
    topology_spread_constraints: Annotated[
        tuple[CoreObject, ...],
        about(
            "How the pods are spread over the cluster.",
            SUSPENDED,
            max_length=8,
            core_type="TopologySpreadConstraint",
        ),
    ] = ()
    scheduler_name: Annotated[
        Text | None, about("Scheduler of the pods; the cluster's own if not set.", SUSPENDED, max_length=253)
    ] = None
    service_account_name: Annotated[
        SecretName | None,
        about("Service account of the pods; the namespace's default if not set.", SUSPENDED),
    ] = None
    labels: Annotated[
        dict[LabelKey, LabelValue], about("Labels added to the pods.", SUSPENDED, max_length=64)
    ] = Field(default_factory=dict)
    annotations: Annotated[
        dict[LabelKey, Annotated[str, Strict(), Field(max_length=16_384)]],
        about("Annotations added to the pods.", SUSPENDED, max_length=64),
    ] = Field(default_factory=dict)
    env: Annotated[
        tuple[CoreObject, ...],
        about("Environment variables of the container.", SUSPENDED, max_length=64, core_type="EnvVar"),
    ] = ()
    env_from: Annotated[
        tuple[CoreObject, ...],
        about("Secrets and ConfigMaps as environment.", SUSPENDED, max_length=16, core_type="EnvFromSource"),
    ] = ()
    volumes: Annotated[
        tuple[CoreObject, ...], about("Volumes of the pods.", SUSPENDED, max_length=32, core_type="Volume")
    ] = ()
    volume_mounts: Annotated[
        tuple[CoreObject, ...],
        about("Where volumes appear in the container.", SUSPENDED, max_length=32, core_type="VolumeMount"),
    ] = ()
    image_pull_secrets: Annotated[
        tuple[CoreObject, ...],
        about("Secrets for pulling the image.", SUSPENDED, max_length=16, core_type="LocalObjectReference"),
    ] = ()
    pod_template: Annotated[
        CoreObject,
        about(
            "A pod template that is merged under what dartes sets; checked by the operator, fixed at start.",
            SUSPENDED,
            max_length=64,
            core_type="PodTemplateSpec",
        ),
    ] = Field(default_factory=dict)

    def rules(self) -> Iterator[Refusal]:
        for position, volume in enumerate(self.volumes):
            if "hostPath" in volume:
                yield Refusal(f"volumes[{position}].hostPath", NO_HOST_PATH)
            projected = volume.get("projected")
            sources = projected.get("sources") if isinstance(projected, dict) else None
            for at, source in enumerate(sources if isinstance(sources, list) else ()):
                if isinstance(source, dict) and "serviceAccountToken" in source:
                    where = f"volumes[{position}].projected.sources[{at}].serviceAccountToken"
                    yield Refusal(where, NO_TOKEN)


class CoordinatorSpec(PodPlacement):
    """The coordinator's pod."""


class ScaleDownSpec(SpecModel):
    """How workers leave."""

    drain_seconds: Annotated[
        Integer, about("Time that a leaving worker has to finish its lease, in seconds.", ge=0, le=3600)
    ] = 20


class WorkersSpec(PodPlacement):
    """The population workers."""

    replicas: Annotated[Integer, about("Number of workers.", ANY_TIME, ge=1, le=1024)] = 1
    min_replicas: Annotated[
        Integer, about("Fewest workers with which the run goes on.", ANY_TIME, ge=1, le=1024)
    ] = 1
    max_replicas: Annotated[
        Integer, about("Most workers, whatever asks for more.", ANY_TIME, ge=1, le=1024)
    ] = 1024
    engine: Annotated[EngineKind, about("What generates the answers: Transformers or VLLM.", SUSPENDED)] = (
        EngineKind.TRANSFORMERS
    )
    engine_options: Annotated[EngineOptions, about("Settings of the VLLM engine.", SUSPENDED)] = (
        EngineOptions()
    )
    threads: Annotated[
        Integer,
        about(
            "CPU threads of each worker's engine. It decides the last bits of an answer, so it is fixed.",
            Mutability.FIXED,
            ge=1,
            le=256,
        ),
    ] = 1
    gpus_per_worker: Annotated[
        Integer, about("GPUs of each worker; 0 generates on the CPU.", SUSPENDED, ge=0, le=64)
    ] = 1
    gpu_resource_name: Annotated[
        Text, about("The extended resource that counts GPUs.", SUSPENDED, min_length=1, max_length=253)
    ] = "nvidia.com/gpu"
    runtime_class_name: Annotated[
        Text | None, about("Runtime class of the worker pods.", SUSPENDED, min_length=1, max_length=253)
    ] = None
    scale_down: Annotated[ScaleDownSpec, about("How workers leave.", ANY_TIME)] = ScaleDownSpec()

    @property
    def tensor_parallel(self) -> int:
        """Processes that share one model: `engineOptions.tensorParallelSize`, by default a worker's GPUs."""
        if self.engine is not EngineKind.VLLM:
            return 1
        return self.engine_options.tensor_parallel_size or max(1, self.gpus_per_worker)

    def rules(self) -> Iterator[Refusal]:
        yield from super().rules()
        if self.min_replicas > self.max_replicas:
            yield Refusal(
                "min_replicas",
                f"{self.min_replicas} is above maxReplicas ({self.max_replicas}); lower it or raise that",
                ("min_replicas", "max_replicas"),
            )

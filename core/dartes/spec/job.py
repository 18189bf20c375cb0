"""The whole job: `DartESJob` as people write it and clusters store it, and `JobSpec`, what to train and how.

One model serves the command line, the coordinator and the CRD, so that a file means the same everywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, Strict

from dartes.spec.base import (
    Boolean,
    Integer,
    LabelKey,
    LabelValue,
    Mutability,
    Refusal,
    SpecModel,
    Text,
    WeightType,
    about,
)
from dartes.spec.checkpoint import CheckpointSpec
from dartes.spec.dart import DartSpec
from dartes.spec.dataset import DatasetSpec, ProblemSelection
from dartes.spec.es import EsSpec
from dartes.spec.evaluation import EvaluationSet, EvaluationSpec
from dartes.spec.export import ExportSpec
from dartes.spec.generation import GenerationSpec
from dartes.spec.model import ModelSpec
from dartes.spec.policies import DisruptionBudget, FailurePolicy, MonitoringSpec, NetworkPolicySpec
from dartes.spec.roles import CoordinatorSpec, WorkersSpec
from dartes.spec.task import TaskSpec

API_VERSION = "dartes.dev/v1alpha1"
KIND = "DartESJob"
FIXED = Mutability.FIXED
SUSPENDED = Mutability.SUSPENDED
ANY_TIME = Mutability.ANY_TIME


class JobMetadata(SpecModel):
    """The parts of Kubernetes' object metadata that people write."""

    name: Annotated[
        Text,
        about(
            "Name of the job: lower-case letters, digits and dashes, beginning with a letter, no dots, "
            "at most 40 characters (room for -worker-1023-9).",
            FIXED,
            min_length=1,
            max_length=40,
            pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$",
        ),
    ]
    namespace: Annotated[Text | None, about("Namespace of the job.", FIXED, min_length=1, max_length=63)] = (
        None
    )
    labels: Annotated[dict[LabelKey, LabelValue], about("Labels of the job.", ANY_TIME, max_length=64)] = (
        Field(default_factory=dict)
    )
    annotations: Annotated[
        dict[LabelKey, Annotated[str, Strict(), Field(max_length=16_384)]],
        about("Annotations of the job.", ANY_TIME, max_length=64),
    ] = Field(default_factory=dict)


@dataclass(frozen=True)
class TrainingSet:
    """One data set of a stage: its problems, how they are asked and graded, and its share of a mix."""

    dataset: ProblemSelection
    task: TaskSpec
    weight: float = 1.0
    path: str = "dataset"
    """Where the job file has it, without `spec.`."""


class JobSpec(SpecModel):
    """What to train, on what, how, and with how many workers."""

    suspend: Annotated[Boolean, about("Stop all pods and keep the state; false goes on.", ANY_TIME)] = False
    managed_by: Annotated[
        Text,
        about("The controller that acts on this job; another value is left alone.", FIXED, max_length=63),
    ] = "dartes.dev/operator"
    queue_name: Annotated[
        Text | None, about("Kueue queue of the workers.", SUSPENDED, min_length=1, max_length=253)
    ] = None
    priority_class_name: Annotated[
        Text | None, about("Priority class of the pods.", SUSPENDED, min_length=1, max_length=253)
    ] = None
    active_deadline_seconds: Annotated[
        Integer | None, about("Fail the job after running so many seconds.", ANY_TIME, ge=1, le=2_147_483_647)
    ] = None
    ttl_seconds_after_finished: Annotated[
        Integer | None,
        about("Delete the job so many seconds after its end.", ANY_TIME, ge=0, le=2_147_483_647),
    ] = None
    startup_deadline_seconds: Annotated[
        Integer,
        about("Fail the job if its pods don't start within so many seconds.", ANY_TIME, ge=1, le=604_800),
    ] = 1800
    model: Annotated[ModelSpec, about("The base model.", FIXED)]
    dataset: Annotated[DatasetSpec, about("The training problems.", FIXED)]
    task: Annotated[TaskSpec, about("How problems are asked and answers graded.", FIXED)]
    generation: Annotated[GenerationSpec, about("How answers are decoded.", FIXED)] = GenerationSpec()
    es: Annotated[EsSpec, about("The evolution strategy.")]
    dart: Annotated[DartSpec, about("The difficulty state.", FIXED)] = DartSpec()
    evaluation: Annotated[EvaluationSpec, about("Held-out evaluation.", ANY_TIME)] = EvaluationSpec()
    coordinator: Annotated[CoordinatorSpec, about("The coordinator's pod.")] = CoordinatorSpec()
    workers: Annotated[WorkersSpec, about("The population workers.")] = WorkersSpec()
    failure_policy: Annotated[FailurePolicy, about("How many failures the run survives.", ANY_TIME)] = (
        FailurePolicy()
    )
    checkpoint: Annotated[CheckpointSpec, about("The run's state on disk.")] = CheckpointSpec()
    export: Annotated[
        ExportSpec | None, about("Where the trained model goes at the end; nowhere if not set.", ANY_TIME)
    ] = None
    network_policy: Annotated[NetworkPolicySpec, about("The network policy around the pods.", ANY_TIME)] = (
        NetworkPolicySpec()
    )
    disruption_budget: Annotated[
        DisruptionBudget,
        about(
            "BlockVoluntary makes node drains wait for the coordinator; None lets them go ahead.", ANY_TIME
        ),
    ] = DisruptionBudget.NONE
    monitoring: Annotated[MonitoringSpec, about("Objects for a monitoring stack.", ANY_TIME)] = (
        MonitoringSpec()
    )

    @property
    def served_type(self) -> WeightType:
        """Number format in which members are served: `es.servedDtype`, or else `model.dtype`."""
        return self.es.served_dtype or self.model.dtype

    def training_stages(self) -> tuple[tuple[TrainingSet, ...], ...]:
        """Return the data sets of each stage, in order; a job without stages has one."""
        dataset = self.dataset
        if dataset.stages:
            return tuple(
                (TrainingSet(stage, stage.task or self.task, path=f"dataset.stages[{number}]"),)
                for number, stage in enumerate(dataset.stages)
            )
        if dataset.mix:
            parts = (
                TrainingSet(part, part.task or self.task, part.weight, f"dataset.mix[{number}]")
                for number, part in enumerate(dataset.mix)
            )
            return (tuple(parts),)
        return ((TrainingSet(dataset, self.task),),)

    def task_of(self, evaluation_set: EvaluationSet) -> TaskSpec:
        """Return the task that grades an evaluation set: its own, or else the job's."""
        return evaluation_set.task or self.task

    def rules(self) -> Iterator[Refusal]:
        has_length = self.es.iterations is not None or self.es.epochs is not None
        if self.dataset.stages and has_length:
            yield Refusal(
                "es",
                "iterations and epochs are the length of a run without stages, and dataset.stages have their "
                "own: remove es.iterations and es.epochs",
                ("es", "dataset.stages"),
            )
        if not self.dataset.stages and not has_length:
            yield Refusal(
                "es",
                "set exactly one of iterations or epochs: it is the length of the run, for example "
                "iterations: 100",
                ("es", "dataset.stages"),
            )
        most = self.dataset.max_problems
        if most is not None and self.es.batch_size > most:
            yield Refusal(
                "es.batch_size",
                f"{self.es.batch_size} is larger than the data set (dataset.maxProblems is {most}); "
                f"allowed: at most {most}",
            )


class DartESJob(SpecModel):
    """A job file."""

    api_version: Annotated[Literal["dartes.dev/v1alpha1"], about("Version of this format.", FIXED)]
    kind: Annotated[Literal["DartESJob"], about("Kind of this object.", FIXED)]
    metadata: Annotated[JobMetadata, about("The job's name.")]
    spec: Annotated[JobSpec, about("What to train and how.")]

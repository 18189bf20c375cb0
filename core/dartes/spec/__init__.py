"""The job, as pydantic models: one source for job files, the command line, the coordinator and the CRD."""

from dartes.spec.algorithm import (
    FieldDifference,
    ResumeComparison,
    algorithm_digest,
    algorithm_fields,
    compare_for_resume,
)
from dartes.spec.base import WeightType
from dartes.spec.checks import errors_for, errors_for_training, warnings_for_training
from dartes.spec.dataset import DatasetSpec
from dartes.spec.dump import dump_job
from dartes.spec.es import EsSpec
from dartes.spec.evaluation import EvaluationSet, EvaluationSpec
from dartes.spec.generation import GenerationSpec
from dartes.spec.job import DartESJob, JobMetadata, JobSpec
from dartes.spec.load import LoadedJob, job_from_object, load_job, parse_job_text
from dartes.spec.model import ModelSpec
from dartes.spec.problems import FieldProblem, InvalidJobError
from dartes.spec.source import Scheme, Source, parse_source
from dartes.spec.task import AnswerFormat, Fitness, TaskSpec

__all__ = [
    "AnswerFormat",
    "DartESJob",
    "DatasetSpec",
    "EsSpec",
    "EvaluationSet",
    "EvaluationSpec",
    "FieldDifference",
    "FieldProblem",
    "Fitness",
    "GenerationSpec",
    "InvalidJobError",
    "JobMetadata",
    "JobSpec",
    "LoadedJob",
    "ModelSpec",
    "ResumeComparison",
    "Scheme",
    "Source",
    "TaskSpec",
    "WeightType",
    "algorithm_digest",
    "algorithm_fields",
    "compare_for_resume",
    "dump_job",
    "errors_for",
    "errors_for_training",
    "job_from_object",
    "load_job",
    "parse_job_text",
    "parse_source",
    "warnings_for_training",
]

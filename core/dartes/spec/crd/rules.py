"""The rules between fields, in CEL, by the model that has the same rule in its `rules()`.

Each message says what to write instead. A rule whose model is used in several places holds in all of them.
"""

from collections.abc import Mapping

from dartes.spec.crd.structural import Rule

SOURCE = Rule(
    "self == '' || self != 'hf://datasets' && self.matches(self.contains('://') ? '(?s)^("
    "builtin://[a-z][a-z0-9_-]{0,62}"
    "|hf://[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?"
    "|hf://datasets/[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?(@[A-Za-z0-9._/-]{1,200})?"
    "|(file|pvc|s3|gs)://.*[^/].*)$' : '[^ \\t\\n]')",
    "not spelt as a source: write builtin://NAME, hf://org/name, hf://datasets/org/name, file:///path, "
    "pvc://claim/path, s3://bucket/path or gs://bucket/path",
)
"""Holds for every text that is a source (see `dartes.spec.source`)."""

ITERATION = Rule(
    "type(self) == int ? self >= 0 && self <= 1000000 : self == 'Best' || self == 'Last'",
    "not an iteration: write Best, Last or a number from 0 to 1000000",
)

NAME = Rule(
    "self.metadata.name.matches('^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$')",
    "a job's name has at most 40 characters, lower-case letters, digits and dashes, beginning with a "
    "letter and without dots: write for example my-job",
    "metadata.name",
)

BETWEEN_FIELDS: Mapping[str, tuple[Rule, ...]] = {
    "JobSpec": (
        Rule(
            "!has(self.dataset.maxProblems) || self.es.batchSize <= self.dataset.maxProblems",
            "es.batchSize is larger than dataset.maxProblems: lower it to at most dataset.maxProblems",
            "es.batchSize",
        ),
        Rule(
            "has(self.dataset.stages) && size(self.dataset.stages) > 0 "
            "? !has(self.es.iterations) && !has(self.es.epochs) "
            ": has(self.es.iterations) || has(self.es.epochs)",
            "the length of the run is missing, or given twice: set exactly one of es.iterations or "
            "es.epochs, for example iterations: 100, and neither with dataset.stages, which have their own",
            "es",
        ),
    ),
    "DatasetSpec": (
        Rule(
            "[has(self.source) && self.source != '', has(self.stages) && size(self.stages) > 0, "
            "has(self.mix) && size(self.mix) > 0].exists_one(given, given)",
            "set exactly one of source, stages or mix: it says where the problems are, for example "
            "source: builtin://addition",
        ),
    ),
    "DatasetStage": (
        Rule(
            "has(self.iterations) != has(self.epochs)",
            "set exactly one of iterations or epochs: it is the length of the stage",
        ),
    ),
    "TaskSpec": (
        Rule(
            "!has(self.python) || self.kind == 'python'",
            "python is only used with kind: python: remove it or change kind",
            "python",
        ),
        Rule(
            "has(self.python) || self.kind != 'python'",
            "kind: python needs python: set python.function to module:function, or python.configMap",
            "python",
        ),
    ),
    "PythonTask": (
        Rule(
            "has(self.function) != has(self.configMap)",
            "set exactly one of function or configMap: it says where the reward function is",
        ),
    ),
    "EsSpec": (
        Rule(
            "!has(self.iterations) || !has(self.epochs)",
            "iterations and epochs are both the length of the run: remove one of the two",
        ),
        Rule(
            "!self.antithetic || self.populationSize % 2 == 0",
            "antithetic pairs the members: write an even populationSize, or antithetic: false",
            "populationSize",
        ),
        Rule(
            "self.slicesPerMember <= self.batchSize",
            "more slices than problems in a batch would be empty: write at most batchSize",
            "slicesPerMember",
        ),
    ),
    "EvaluationSpec": (
        Rule(
            "!has(self.sets) || self.sets.all(one, self.sets.exists_one(other, other.name == one.name))",
            "two sets have the same name: give every set its own name",
            "sets",
        ),
        Rule(
            "!has(self.holdouts) || self.holdouts.all(one, "
            "self.holdouts.exists_one(other, other.name == one.name) "
            "&& (!has(self.sets) || !self.sets.exists(other, other.name == one.name)))",
            "a holdout has the name of another set: give every set its own name",
            "holdouts",
        ),
    ),
    "EvaluationSet": (
        Rule(
            "self.name != 'train' && self.name != 'reward'",
            "records call something else so: give the set another name, for example held-out",
            "name",
        ),
        Rule(
            "self.samples <= 1 || self.temperature > 0.0",
            "several greedy answers are all the same: set temperature above 0, or samples: 1",
            "samples",
        ),
    ),
    "WorkersSpec": (
        Rule(
            # The API server tries the rule on the default `{}`, before it fills that in.
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas is above maxReplicas: lower it or raise that",
            "minReplicas",
        ),
    ),
    "ModelCache": (
        Rule(
            "[has(self.emptyDir), has(self.claimName), has(self.image)].exists_one(given, given)",
            "set exactly one of emptyDir, claimName or image: a model is cached in one place",
        ),
    ),
    "VolumeSpec": (
        Rule(
            "!has(self.claimName) || !(has(self.size) || has(self.storageClassName) || has(self.accessMode))",
            "claimName names an existing claim; size, storageClassName and accessMode are for one to be "
            "made: remove claimName or those",
        ),
    ),
    "ResumeSource": (
        Rule(
            "has(self.jobName) != has(self.claimName)",
            "set exactly one of jobName or claimName: it says whose state to start from",
        ),
    ),
}
"""Rules by the name of the model."""


def names_of(least: int, most: int) -> Rule:
    """The rule for the names of a map's entries, whose length the schema itself can't bound."""
    return Rule(
        f"self.all(name, size(name) >= {least} && size(name) <= {most})",
        f"a name here has {least} to {most} characters: write a name of that length",
    )

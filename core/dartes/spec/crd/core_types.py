"""Structural schemas of the Kubernetes types that a role's pod may carry, kept by hand and without words.

The API server would prune what is not listed here, so each type has all fields that make sense in a job's
pod. Descriptions are Kubernetes' own; repeating them would make up most of the file.
"""

from collections.abc import Mapping

from dartes.spec.crd.structural import (
    KEY,
    PRESERVE_KEY,
    Node,
    array,
    boolean,
    fields,
    integer,
    mapping,
    quantity,
    text,
    texts,
)
from dartes.spec.crd.volumes import VOLUME, VOLUME_MOUNT

_LABELS = mapping(text(63), 64)

_TOLERATION = fields(
    key=text(KEY),
    operator=text(choices=("Exists", "Equal", "Lt", "Gt")),
    value=text(256),
    effect=text(choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
    tolerationSeconds=integer(long=True),
)

_LABEL_SELECTOR = fields(
    matchLabels=_LABELS,
    matchExpressions=array(
        fields(
            ("key", "operator"),
            key=text(KEY),
            operator=text(choices=("In", "NotIn", "Exists", "DoesNotExist")),
            values=texts(64, 63),
        ),
        16,
    ),
)

_NODE_REQUIREMENTS = array(
    fields(
        ("key", "operator"),
        key=text(KEY),
        operator=text(choices=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
        values=texts(64),
    ),
    16,
)

_NODE_TERM = fields(matchExpressions=_NODE_REQUIREMENTS, matchFields=_NODE_REQUIREMENTS)

_POD_TERM = fields(
    ("topologyKey",),
    labelSelector=_LABEL_SELECTOR,
    namespaces=texts(16, 63),
    namespaceSelector=_LABEL_SELECTOR,
    topologyKey=text(KEY, least=1),
    matchLabelKeys=texts(16, KEY),
    mismatchLabelKeys=texts(16, KEY),
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = integer(1, 100)

_POD_AFFINITY = fields(
    **{
        _REQUIRED: array(_POD_TERM, 16),
        _PREFERRED: array(
            fields(("weight", "podAffinityTerm"), weight=_WEIGHT, podAffinityTerm=_POD_TERM), 16
        ),
    }
)

_AFFINITY = fields(
    nodeAffinity=fields(
        **{
            _REQUIRED: fields(("nodeSelectorTerms",), nodeSelectorTerms=array(_NODE_TERM, 16)),
            _PREFERRED: array(
                fields(("weight", "preference"), weight=_WEIGHT, preference=_NODE_TERM),
                16,
            ),
        }
    ),
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)

_SPREAD = fields(
    ("maxSkew", "topologyKey", "whenUnsatisfiable"),
    maxSkew=integer(1, 1024),
    topologyKey=text(KEY, least=1),
    whenUnsatisfiable=text(choices=("DoNotSchedule", "ScheduleAnyway")),
    labelSelector=_LABEL_SELECTOR,
    minDomains=integer(1, 10_000),
    nodeAffinityPolicy=text(choices=("Honor", "Ignore")),
    nodeTaintsPolicy=text(choices=("Honor", "Ignore")),
    matchLabelKeys=texts(16, KEY),
)

_KEY_OF = fields(("key",), name=text(), key=text(least=1), optional=boolean())

_ENV_VAR = fields(
    ("name",),
    name=text(least=1),
    value=text(32_768),
    valueFrom=fields(
        secretKeyRef=_KEY_OF,
        configMapKeyRef=_KEY_OF,
        fieldRef=fields(("fieldPath",), apiVersion=text(63), fieldPath=text(512)),
        resourceFieldRef=fields(("resource",), containerName=text(63), resource=text(), divisor=quantity()),
    ),
)

_ENV_FROM = fields(
    prefix=text(),
    configMapRef=fields(name=text(), optional=boolean()),
    secretRef=fields(name=text(), optional=boolean()),
)

_POD_TEMPLATE: Node = {"type": "object", "maxProperties": 64, PRESERVE_KEY: True}

CORE_TYPES: Mapping[str, Node] = {
    "Affinity": _AFFINITY,
    "EnvFromSource": _ENV_FROM,
    "EnvVar": _ENV_VAR,
    "LocalObjectReference": fields(("name",), name=text(least=1)),
    "PodTemplateSpec": _POD_TEMPLATE,
    "Toleration": _TOLERATION,
    "TopologySpreadConstraint": _SPREAD,
    "Volume": VOLUME,
    "VolumeMount": VOLUME_MOUNT,
}
"""Schema by the name that a model's field gives as its core type."""

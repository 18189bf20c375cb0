"""Structural schemas of the volumes that a role's pod may carry, and of their mounts, kept by hand.

Volumes that reach the node or carry an API token are listed so that they can be refused in words, instead of
being pruned in silence.
"""

from dartes.spec.crd.structural import (
    Node,
    Rule,
    array,
    boolean,
    fields,
    integer,
    mapping,
    quantity,
    text,
    texts,
    with_rules,
)
from dartes.spec.roles import NO_HOST_PATH, NO_TOKEN

_PATH = 1024
_MODE = integer(0, 511)
_ITEMS = array(
    fields(("key", "path"), key=text(least=1), path=text(_PATH, least=1), mode=_MODE),
    64,
)
_DOWNWARD_ITEMS = array(
    fields(
        ("path",),
        path=text(_PATH, least=1),
        mode=_MODE,
        fieldRef=fields(("fieldPath",), apiVersion=text(63), fieldPath=text(512)),
        resourceFieldRef=fields(("resource",), containerName=text(63), resource=text(), divisor=quantity()),
    ),
    32,
)
_LABELS = mapping(text(63), 64)

_CLAIM_TEMPLATE = fields(
    ("spec",),
    metadata=fields(labels=_LABELS, annotations=mapping(text(4096), 32)),
    spec=fields(
        accessModes=texts(4, 63),
        resources=fields(requests=mapping(quantity(), 8), limits=mapping(quantity(), 8)),
        storageClassName=text(),
        volumeAttributesClassName=text(),
        volumeMode=text(choices=("Filesystem",)),
        volumeName=text(),
    ),
)


_PROJECTION = with_rules(
    fields(
        configMap=fields(name=text(), items=_ITEMS, optional=boolean()),
        secret=fields(name=text(), items=_ITEMS, optional=boolean()),
        downwardAPI=fields(items=_DOWNWARD_ITEMS),
        serviceAccountToken=fields(audience=text(), expirationSeconds=integer(long=True), path=text(_PATH)),
    ),
    [Rule("!has(self.serviceAccountToken)", NO_TOKEN, "serviceAccountToken")],
)


VOLUME: Node = with_rules(
    fields(
        ("name",),
        name=text(63, least=1),
        emptyDir=fields(medium=text(63), sizeLimit=quantity()),
        configMap=fields(name=text(), items=_ITEMS, defaultMode=_MODE, optional=boolean()),
        secret=fields(secretName=text(), items=_ITEMS, defaultMode=_MODE, optional=boolean()),
        persistentVolumeClaim=fields(("claimName",), claimName=text(least=1), readOnly=boolean()),
        image=fields(reference=text(512), pullPolicy=text(choices=("Always", "IfNotPresent", "Never"))),
        ephemeral=fields(volumeClaimTemplate=_CLAIM_TEMPLATE),
        projected=fields(sources=array(_PROJECTION, 16), defaultMode=_MODE),
        downwardAPI=fields(items=_DOWNWARD_ITEMS, defaultMode=_MODE),
        csi=fields(
            ("driver",),
            driver=text(least=1),
            readOnly=boolean(),
            fsType=text(63),
            volumeAttributes=mapping(text(1024), 32),
            nodePublishSecretRef=fields(name=text()),
        ),
        nfs=fields(("server", "path"), server=text(least=1), path=text(_PATH, least=1), readOnly=boolean()),
        hostPath=fields(path=text(_PATH), type_=text(63)),
    ),
    [Rule("!has(self.hostPath)", NO_HOST_PATH, "hostPath")],
)

VOLUME_MOUNT: Node = fields(
    ("name", "mountPath"),
    name=text(63, least=1),
    mountPath=text(_PATH, least=1),
    subPath=text(_PATH),
    subPathExpr=text(_PATH),
    readOnly=boolean(),
    recursiveReadOnly=text(choices=("Disabled", "IfPossible", "Enabled")),
    mountPropagation=text(choices=("None", "HostToContainer")),
)

"""The structural schema of `status`: what the operator reports, kept by hand.

Nothing here decides what it says. Every text and list is bounded, so that a status can't outgrow an object.
"""

from dartes.spec.crd.structural import (
    Node,
    array,
    boolean,
    described,
    fields,
    integer,
    mapping,
    moment,
    text,
    texts,
)

PHASES = (
    "Pending",
    "Queued",
    "Initializing",
    "Running",
    "Suspending",
    "Suspended",
    "Restarting",
    "Completing",
    "Succeeded",
    "Failed",
)
"""What `status.phase` can be, in the order in which a job may pass through them."""

MOST_COUNTED = 384
MOST_MESSAGE = 2048
_COUNT = integer(0)
_UID = 64
_DIGEST = text(128)
_NUMBER: Node = {"type": "number", "format": "double"}

_CONDITION = fields(
    ("type", "status", "lastTransitionTime", "reason", "message"),
    type_=text(63, least=1),
    status=text(choices=("True", "False", "Unknown")),
    observedGeneration=integer(0, long=True),
    lastTransitionTime=moment(),
    reason=text(63, least=1),
    message=text(MOST_MESSAGE),
)

_CONDITIONS: Node = {
    **array(_CONDITION, 16),
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}

_LAST_FAILURE = fields(
    pod=text(),
    role=text(choices=("coordinator", "worker", "export")),
    reason=text(128),
    exitCode=integer(),
    message=text(MOST_MESSAGE),
    time=moment(),
    counted=boolean(),
)

_PROGRESS = fields(
    iteration=described(_COUNT, "Iterations that are committed."),
    totalIterations=described(_COUNT, "Length of the run in iterations."),
    epoch=_COUNT,
    stage=described(_COUNT, "The stage under way, counted from 1; only with dataset.stages."),
    stages=_COUNT,
    estimatedRemainingSeconds=_NUMBER,
    lastIterationSeconds=_NUMBER,
    trainPassRate=described(_NUMBER, "Share of answers that passed in the last iteration, rounded."),
    evalAccuracy=described(_NUMBER, "Accuracy on the first evaluation set, rounded."),
    replayBufferSize=_COUNT,
    lastUpdateTime=moment(),
)


def status_node() -> Node:
    """Return the structural schema of `status`."""
    return described(
        fields(
            observedGeneration=described(
                integer(0, long=True), "The generation of the object that this status speaks of."
            ),
            phase=described(
                text(choices=PHASES), "The state in one word, for people; programs read conditions."
            ),
            message=described(text(1024), "Why the job is in this phase, in one sentence."),
            conditions=described(
                _CONDITIONS, "The state in full: Accepted, WorkersReady, Complete and others."
            ),
            startTime=described(moment(), "First start; from then on most of spec is fixed."),
            completionTime=moment(),
            lastResumeTime=moment(),
            runId=described(text(63), "Name of the run, the same from start to end."),
            images=described(mapping(text(512), 8), "Images that the run is pinned to, by role."),
            templateHash=described(text(63), "Hash of the pinned settings and pod templates."),
            policyHash=described(text(63), "Hash of the policies around the pods, as last written."),
            coordinator=fields(podName=text(), incarnation=_COUNT, ready=boolean(), restarts=_COUNT),
            workers=fields(
                replicas=_COUNT,
                ready=_COUNT,
                caughtUp=_COUNT,
                pending=_COUNT,
                draining=_COUNT,
                desired=_COUNT,
                selector=text(1024),
            ),
            failures=fields(
                coordinator=_COUNT,
                worker=_COUNT,
                disruptions=_COUNT,
                export=_COUNT,
                workerSince=described(_COUNT, "The iteration from which worker failures are counted."),
                counted=described(
                    texts(MOST_COUNTED, _UID), "Ended pods that are counted and not yet gone, by uid."
                ),
            ),
            lastFailure=_LAST_FAILURE,
            progress=_PROGRESS,
            checkpoint=fields(
                claimName=text(),
                lastIteration=_COUNT,
                lastTime=moment(),
                digest=described(_DIGEST, "Digest of the master weights."),
                journalHash=described(_DIGEST, "Hash of the journal's last row."),
            ),
            export=fields(uri=text(1024), time=moment(), digest=_DIGEST),
        ),
        "What the operator reports.",
    )

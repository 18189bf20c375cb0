# Written by `make proto` from proto/dartes/v1; edit that instead.
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EvaluateKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVALUATE_KIND_UNSPECIFIED: _ClassVar[EvaluateKind]
    EVALUATE_KIND_MEMBER: _ClassVar[EvaluateKind]
    EVALUATE_KIND_PARENT: _ClassVar[EvaluateKind]
    EVALUATE_KIND_HELD_OUT: _ClassVar[EvaluateKind]
EVALUATE_KIND_UNSPECIFIED: EvaluateKind
EVALUATE_KIND_MEMBER: EvaluateKind
EVALUATE_KIND_PARENT: EvaluateKind
EVALUATE_KIND_HELD_OUT: EvaluateKind

class WeightsVersion(_message.Message):
    __slots__ = ("iteration", "row_hash")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    ROW_HASH_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    row_hash: bytes
    def __init__(self, iteration: _Optional[int] = ..., row_hash: _Optional[bytes] = ...) -> None: ...

class TensorShape(_message.Message):
    __slots__ = ("name", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class DataDigest(_message.Message):
    __slots__ = ("name", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("worker", "protocol", "fingerprint", "base_digest", "data", "algorithm_digest", "noise_version", "tensors", "weights", "warnings", "placement")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    BASE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_DIGEST_FIELD_NUMBER: _ClassVar[int]
    NOISE_VERSION_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    protocol: int
    fingerprint: str
    base_digest: str
    data: _containers.RepeatedCompositeFieldContainer[DataDigest]
    algorithm_digest: str
    noise_version: str
    tensors: _containers.RepeatedCompositeFieldContainer[TensorShape]
    weights: WeightsVersion
    warnings: _containers.RepeatedScalarFieldContainer[str]
    placement: str
    def __init__(self, worker: _Optional[str] = ..., protocol: _Optional[int] = ..., fingerprint: _Optional[str] = ..., base_digest: _Optional[str] = ..., data: _Optional[_Iterable[_Union[DataDigest, _Mapping]]] = ..., algorithm_digest: _Optional[str] = ..., noise_version: _Optional[str] = ..., tensors: _Optional[_Iterable[_Union[TensorShape, _Mapping]]] = ..., weights: _Optional[_Union[WeightsVersion, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., placement: _Optional[str] = ...) -> None: ...

class SnapshotInfo(_message.Message):
    __slots__ = ("iteration", "row_hash", "digest", "file")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    ROW_HASH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    row_hash: bytes
    digest: str
    file: str
    def __init__(self, iteration: _Optional[int] = ..., row_hash: _Optional[bytes] = ..., digest: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("incarnation", "heartbeat_seconds", "long_poll_seconds", "journal_header", "snapshots")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LONG_POLL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_HEADER_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    heartbeat_seconds: float
    long_poll_seconds: float
    journal_header: bytes
    snapshots: _containers.RepeatedCompositeFieldContainer[SnapshotInfo]
    def __init__(self, incarnation: _Optional[int] = ..., heartbeat_seconds: _Optional[float] = ..., long_poll_seconds: _Optional[float] = ..., journal_header: _Optional[bytes] = ..., snapshots: _Optional[_Iterable[_Union[SnapshotInfo, _Mapping]]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "trouble")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    trouble: str
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., trouble: _Optional[str] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("drain",)
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    drain: bool
    def __init__(self, drain: _Optional[bool] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "weights", "known_batch")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_BATCH_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    weights: WeightsVersion
    known_batch: int
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., weights: _Optional[_Union[WeightsVersion, _Mapping]] = ..., known_batch: _Optional[int] = ...) -> None: ...

class LeaseResponse(_message.Message):
    __slots__ = ("evaluate", "apply", "snapshot", "wait", "drain", "done", "rebuild", "waited_seconds", "more")
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    APPLY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    REBUILD_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    evaluate: EvaluateLease
    apply: ApplyAction
    snapshot: SnapshotLease
    wait: WaitAction
    drain: DrainAction
    done: DoneAction
    rebuild: RebuildAction
    waited_seconds: float
    more: _containers.RepeatedCompositeFieldContainer[EvaluateLease]
    def __init__(self, evaluate: _Optional[_Union[EvaluateLease, _Mapping]] = ..., apply: _Optional[_Union[ApplyAction, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotLease, _Mapping]] = ..., wait: _Optional[_Union[WaitAction, _Mapping]] = ..., drain: _Optional[_Union[DrainAction, _Mapping]] = ..., done: _Optional[_Union[DoneAction, _Mapping]] = ..., rebuild: _Optional[_Union[RebuildAction, _Mapping]] = ..., waited_seconds: _Optional[float] = ..., more: _Optional[_Iterable[_Union[EvaluateLease, _Mapping]]] = ...) -> None: ...

class EvaluateLease(_message.Message):
    __slots__ = ("lease_id", "attempt", "kind", "iteration", "member", "seed", "sigma", "slice", "slices", "problems", "evaluation_set", "first_row", "row_count", "stage", "log_completions")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_SET_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    LOG_COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    attempt: int
    kind: EvaluateKind
    iteration: int
    member: int
    seed: int
    sigma: float
    slice: int
    slices: int
    problems: _containers.RepeatedScalarFieldContainer[int]
    evaluation_set: str
    first_row: int
    row_count: int
    stage: int
    log_completions: int
    def __init__(self, lease_id: _Optional[str] = ..., attempt: _Optional[int] = ..., kind: _Optional[_Union[EvaluateKind, str]] = ..., iteration: _Optional[int] = ..., member: _Optional[int] = ..., seed: _Optional[int] = ..., sigma: _Optional[float] = ..., slice: _Optional[int] = ..., slices: _Optional[int] = ..., problems: _Optional[_Iterable[int]] = ..., evaluation_set: _Optional[str] = ..., first_row: _Optional[int] = ..., row_count: _Optional[int] = ..., stage: _Optional[int] = ..., log_completions: _Optional[int] = ...) -> None: ...

class ApplyAction(_message.Message):
    __slots__ = ("up_to_iteration",)
    UP_TO_ITERATION_FIELD_NUMBER: _ClassVar[int]
    up_to_iteration: int
    def __init__(self, up_to_iteration: _Optional[int] = ...) -> None: ...

class SnapshotLease(_message.Message):
    __slots__ = ("lease_id", "iteration")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    iteration: int
    def __init__(self, lease_id: _Optional[str] = ..., iteration: _Optional[int] = ...) -> None: ...

class WaitAction(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainAction(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DoneAction(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RebuildAction(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("row", "sample", "prompt", "text", "passed", "score", "reason")
    ROW_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    row: int
    sample: int
    prompt: str
    text: str
    passed: bool
    score: float
    reason: str
    def __init__(self, row: _Optional[int] = ..., sample: _Optional[int] = ..., prompt: _Optional[str] = ..., text: _Optional[str] = ..., passed: _Optional[bool] = ..., score: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("write", "update", "generate", "grade", "wire", "idle", "other", "tail_seconds", "alone_seconds")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    GENERATE_FIELD_NUMBER: _ClassVar[int]
    GRADE_FIELD_NUMBER: _ClassVar[int]
    WIRE_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    TAIL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ALONE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    write: float
    update: float
    generate: float
    grade: float
    wire: float
    idle: float
    other: float
    tail_seconds: float
    alone_seconds: float
    def __init__(self, write: _Optional[float] = ..., update: _Optional[float] = ..., generate: _Optional[float] = ..., grade: _Optional[float] = ..., wire: _Optional[float] = ..., idle: _Optional[float] = ..., other: _Optional[float] = ..., tail_seconds: _Optional[float] = ..., alone_seconds: _Optional[float] = ...) -> None: ...

class EvaluateResult(_message.Message):
    __slots__ = ("kind", "member", "slice", "evaluation_set", "first_row", "row_count", "positions", "passed", "truncated", "scores", "auxiliary", "prompt_tokens", "generated_tokens", "answer_keys", "completions")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_SET_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    AUXILIARY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_KEYS_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    kind: EvaluateKind
    member: int
    slice: int
    evaluation_set: str
    first_row: int
    row_count: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    passed: bytes
    truncated: bytes
    scores: bytes
    auxiliary: bytes
    prompt_tokens: int
    generated_tokens: int
    answer_keys: bytes
    completions: _containers.RepeatedCompositeFieldContainer[Completion]
    def __init__(self, kind: _Optional[_Union[EvaluateKind, str]] = ..., member: _Optional[int] = ..., slice: _Optional[int] = ..., evaluation_set: _Optional[str] = ..., first_row: _Optional[int] = ..., row_count: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., passed: _Optional[bytes] = ..., truncated: _Optional[bytes] = ..., scores: _Optional[bytes] = ..., auxiliary: _Optional[bytes] = ..., prompt_tokens: _Optional[int] = ..., generated_tokens: _Optional[int] = ..., answer_keys: _Optional[bytes] = ..., completions: _Optional[_Iterable[_Union[Completion, _Mapping]]] = ...) -> None: ...

class SnapshotResult(_message.Message):
    __slots__ = ("iteration", "row_hash", "digest", "file")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    ROW_HASH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    row_hash: bytes
    digest: str
    file: str
    def __init__(self, iteration: _Optional[int] = ..., row_hash: _Optional[bytes] = ..., digest: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "lease_id", "iteration", "evaluate", "snapshot", "timings", "next", "more")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    lease_id: str
    iteration: int
    evaluate: EvaluateResult
    snapshot: SnapshotResult
    timings: Timings
    next: LeaseRequest
    more: _containers.RepeatedCompositeFieldContainer[EvaluateResult]
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., lease_id: _Optional[str] = ..., iteration: _Optional[int] = ..., evaluate: _Optional[_Union[EvaluateResult, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotResult, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., next: _Optional[_Union[LeaseRequest, _Mapping]] = ..., more: _Optional[_Iterable[_Union[EvaluateResult, _Mapping]]] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ("accepted", "next")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    next: LeaseResponse
    def __init__(self, accepted: _Optional[bool] = ..., next: _Optional[_Union[LeaseResponse, _Mapping]] = ...) -> None: ...

class UpdatesRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "from_iteration", "limit")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FROM_ITERATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    from_iteration: int
    limit: int
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., from_iteration: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class UpdateRow(_message.Message):
    __slots__ = ("iteration", "stage", "seeds", "coefficients", "row_hash")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    COEFFICIENTS_FIELD_NUMBER: _ClassVar[int]
    ROW_HASH_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    stage: int
    seeds: _containers.RepeatedScalarFieldContainer[int]
    coefficients: _containers.RepeatedScalarFieldContainer[float]
    row_hash: bytes
    def __init__(self, iteration: _Optional[int] = ..., stage: _Optional[int] = ..., seeds: _Optional[_Iterable[int]] = ..., coefficients: _Optional[_Iterable[float]] = ..., row_hash: _Optional[bytes] = ...) -> None: ...

class UpdatesResponse(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[UpdateRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[UpdateRow, _Mapping]]] = ...) -> None: ...

class AttestRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "weights", "digest", "rebuilt")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REBUILT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    weights: WeightsVersion
    digest: str
    rebuilt: bool
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., weights: _Optional[_Union[WeightsVersion, _Mapping]] = ..., digest: _Optional[str] = ..., rebuilt: _Optional[bool] = ...) -> None: ...

class AttestResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

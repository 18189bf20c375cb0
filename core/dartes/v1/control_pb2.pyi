# Written by `make proto` from proto/dartes/v1; edit that instead.
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_WAITING_FOR_WORKERS: _ClassVar[Phase]
    PHASE_RUNNING: _ClassVar[Phase]
    PHASE_FINISHING: _ClassVar[Phase]
    PHASE_DONE: _ClassVar[Phase]
    PHASE_PAUSED: _ClassVar[Phase]
    PHASE_FAILED: _ClassVar[Phase]
PHASE_UNSPECIFIED: Phase
PHASE_WAITING_FOR_WORKERS: Phase
PHASE_RUNNING: Phase
PHASE_FINISHING: Phase
PHASE_DONE: Phase
PHASE_PAUSED: Phase
PHASE_FAILED: Phase

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EvaluationScore(_message.Message):
    __slots__ = ("set_name", "iteration", "passed", "problems")
    SET_NAME_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    set_name: str
    iteration: int
    passed: int
    problems: int
    def __init__(self, set_name: _Optional[str] = ..., iteration: _Optional[int] = ..., passed: _Optional[int] = ..., problems: _Optional[int] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("phase", "message", "incarnation", "iteration", "total_iterations", "total_is_estimate", "epoch", "leases_done", "leases_total", "train_pass_rate", "replay_buffer_size", "tokens_per_second", "last_iteration_seconds", "estimated_remaining_seconds", "workers_connected", "workers_caught_up", "evaluations", "journal_hash", "weight_digest", "stage", "stages", "notes", "placements")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_IS_ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASES_DONE_FIELD_NUMBER: _ClassVar[int]
    LEASES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TRAIN_PASS_RATE_FIELD_NUMBER: _ClassVar[int]
    REPLAY_BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    LAST_ITERATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_REMAINING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_HASH_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    message: str
    incarnation: int
    iteration: int
    total_iterations: int
    total_is_estimate: bool
    epoch: int
    leases_done: int
    leases_total: int
    train_pass_rate: float
    replay_buffer_size: int
    tokens_per_second: float
    last_iteration_seconds: float
    estimated_remaining_seconds: float
    workers_connected: int
    workers_caught_up: int
    evaluations: _containers.RepeatedCompositeFieldContainer[EvaluationScore]
    journal_hash: str
    weight_digest: str
    stage: int
    stages: int
    notes: _containers.RepeatedScalarFieldContainer[str]
    placements: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ..., message: _Optional[str] = ..., incarnation: _Optional[int] = ..., iteration: _Optional[int] = ..., total_iterations: _Optional[int] = ..., total_is_estimate: _Optional[bool] = ..., epoch: _Optional[int] = ..., leases_done: _Optional[int] = ..., leases_total: _Optional[int] = ..., train_pass_rate: _Optional[float] = ..., replay_buffer_size: _Optional[int] = ..., tokens_per_second: _Optional[float] = ..., last_iteration_seconds: _Optional[float] = ..., estimated_remaining_seconds: _Optional[float] = ..., workers_connected: _Optional[int] = ..., workers_caught_up: _Optional[int] = ..., evaluations: _Optional[_Iterable[_Union[EvaluationScore, _Mapping]]] = ..., journal_hash: _Optional[str] = ..., weight_digest: _Optional[str] = ..., stage: _Optional[int] = ..., stages: _Optional[int] = ..., notes: _Optional[_Iterable[str]] = ..., placements: _Optional[_Iterable[str]] = ...) -> None: ...

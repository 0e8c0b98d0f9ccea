"""The words of the gate: one word per thing, used in artefacts, terminal and report alike."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Arm", "BatchArm", "Outcome", "Purpose", "Reason", "RowState", "RowVerdict", "TargetState"]


class Arm(StrEnum):
    """The two sides of a pair."""

    SUBJECT = "subject"
    COMPARATOR = "comparator"


class BatchArm(StrEnum):
    """The sides of a confirmation batch: an earlier release is measured again beside both."""

    CANDIDATE = "candidate"
    EARLIER = "earlier"
    COMPARATOR = "comparator"


class Purpose(StrEnum):
    """What a run is for. ``adopt`` measures a floor; ``gate`` judges a release against one."""

    GATE = "gate"
    ADOPT = "adopt"


class RowState(StrEnum):
    """What became of a planned row. A row is never absent."""

    MEASURED = "MEASURED"
    FAILED = "FAILED"
    VOID = "VOID"
    MISSING = "MISSING"  # planned, but no start of it is in the samples: blocks


class Reason(StrEnum):
    """Why a request, start or row has no valid number. Every member is documented where it is raised."""

    # the engine
    FAILED_START = "FAILED_START"  # exited, hung or answered wrongly before it was ready
    ENGINE_DIED = "ENGINE_DIED"  # the process ended while requests were timed
    DOES_NOT_FIT = "DOES_NOT_FIT"  # refused by arithmetic before the start
    WRONG_SETTINGS = "WRONG_SETTINGS"  # read back other settings than planned
    WRONG_PROCESS = "WRONG_PROCESS"  # the listener is not the process that was started
    NO_OFFLOAD = "NO_OFFLOAD"  # asked for the GPU, served from the CPU
    UNSUPPORTED = "UNSUPPORTED"  # this generation of the engine cannot give the row
    # the request
    TIMEOUT = "TIMEOUT"
    HTTP_ERROR = "HTTP_ERROR"  # status other than 200, or an error object inside a 200
    STREAM_BROKEN = "STREAM_BROKEN"  # reset, or ended without its last event
    CONNECTION_RESET = "CONNECTION_RESET"
    SHORT_OUTPUT = "SHORT_OUTPUT"  # fewer or more tokens than were forced
    PROMPT_LENGTH = "PROMPT_LENGTH"  # the server counted another prompt length than N
    NOT_COLD = "NOT_COLD"  # a cold row reused cached tokens
    NO_REUSE = "NO_REUSE"  # a cached row reused too little of its prefix
    NOT_CONCURRENT = "NOT_CONCURRENT"  # the streams never all ran together for long enough
    COUNT_MISMATCH = "COUNT_MISMATCH"  # ids, timings and usage disagree
    NOT_STREAMED = "NOT_STREAMED"  # buffered or replayed: the first token came with the last
    # the run
    CONTENDED = "CONTENDED"  # somebody else used the GPU
    THROTTLED = "THROTTLED"
    CLIENT_LATE = "CLIENT_LATE"  # the client's own error is too large for the row
    NO_MEMORY_READING = "NO_MEMORY_READING"
    # correctness
    VOID_CORRECTNESS = "VOID_CORRECTNESS"  # tokens differ from the previous release
    VOID_NONDETERMINISTIC = "VOID_NONDETERMINISTIC"  # the subject disagrees with itself
    VOID_GARBAGE = "VOID_GARBAGE"  # constant run, cycle, empty answer
    NO_REFERENCE = "NO_REFERENCE"  # nothing to compare the tokens with
    # numbers
    NOT_FINITE = "NOT_FINITE"  # zero, negative, NaN or infinite
    MISSING_REQUESTS = "MISSING_REQUESTS"  # the start holds no timed request of the row
    TOO_FEW_PAIRS = "TOO_FEW_PAIRS"
    CONSTANT_SAMPLES = "CONSTANT_SAMPLES"  # a clock does not give the same value twice


class RowVerdict(StrEnum):
    """What the ratchet says of one row (STATISTICS §3, §5)."""

    PASS = "PASS"
    IMPROVED = "IMPROVED"  # passed, and better than the floor beyond its one-sided 99 % bound
    RED = "RED"
    SHIFT = "SHIFT"  # the old release fell too
    INCONCLUSIVE = "INCONCLUSIVE"
    SUSPECT = "SUSPECT"  # too good to be believed, or a denominator that moved
    NEW = "NEW"  # no floor yet: measured, reported, not gating
    MISSING_FLOOR = "MISSING_FLOOR"  # gating row without a floor in this epoch
    MISSING = "MISSING"
    FAILED = "FAILED"
    VOID = "VOID"


class TargetState(StrEnum):
    """Where a published target stands (STATISTICS §4)."""

    MET = "MET"  # the 99 % lower bound clears it
    LIKELY = "LIKELY"  # the estimate does
    OPEN = "OPEN"


class Outcome(StrEnum):
    """What the whole run says. ``exit_status`` in :mod:`lqw.verdict` maps each to its number."""

    PASS = "PASS"
    RED = "RED"
    UNDECIDED = "UNDECIDED"
    FLOOR = "FLOOR"  # an adopt run: floors measured, nothing gated
    INVALID = "INVALID"
    INCOMPLETE = "INCOMPLETE"  # the chain broke: NOT A VERDICT

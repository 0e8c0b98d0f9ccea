"""The faults a real engine will not produce on demand, by name."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Fault"]


class Fault(StrEnum):
    """What goes wrong. Faults of requests begin with request number ``fault_after`` (counted from 0)."""

    NONE = "none"
    # the process
    EXIT_AT_ONCE = "exit_at_once"  # status 6, a line of log
    HANG_BEFORE_READY = "hang_before_ready"  # /health stays 503
    NEVER_LISTENS = "never_listens"
    IGNORES_TERM = "ignores_term"  # SIGTERM does nothing
    GRANDCHILD = "grandchild"  # leaves a process behind in a session of its own that ignores SIGTERM
    # the settings
    WRONG_SLOTS = "wrong_slots"  # half the slots, rounded down, at least one less
    SMALL_CONTEXT = "small_context"  # half the context per slot
    WRONG_MODEL = "wrong_model"  # /props names another file
    # the request
    DIE_IN_STREAM = "die_in_stream"  # SIGKILL to itself after half the tokens
    STALL = "stall"  # half the tokens, then silence on an open connection
    NO_LAST_EVENT = "no_last_event"  # the stream ends properly, its last event missing
    TRUNCATED = "truncated"  # closed in the middle of a chunk
    WRONG_PROMPT_COUNT = "wrong_prompt_count"  # counts two prompt tokens less
    COLD_REUSE = "cold_reuse"  # reuses a prefix whether allowed or not
    NO_REUSE = "no_reuse"  # never reuses one
    SHORT_OUTPUT = "short_output"  # stops at two thirds of the forced length
    OTHER_TOKENS = "other_tokens"  # as coherent as ever, but different text
    UNSTEADY = "unsteady"  # different text at every request
    GARBAGE = "garbage"  # one token over and over
    GARBAGE_PARALLEL = "garbage_parallel"  # the same, only while other slots are busy
    ERROR_IN_200 = "error_in_200"  # an error event in the stream, or an error body, with status 200
    HTTP_500 = "http_500"
    SERIALISE = "serialise"  # one stream at a time, whatever the slots
    SAVES_STATE = "saves_state"  # saves the last prompt's state for 0.25 s before the next one's prompt time begins
    BUFFERED = "buffered"  # every event at the very end
    LYING_COUNT = "lying_count"  # timings say one token more than were sent

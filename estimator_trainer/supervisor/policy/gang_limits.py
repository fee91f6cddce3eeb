"""How long the tasks of a gang may take. Pure."""

import dataclasses

SAVE_MARGIN_SECS = 5  # a trainer's own bound for saving ends so much before it is killed


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds."""

    grace_secs: float = 30  # from SIGTERM to SIGKILL; SAVE_MARGIN_SECS more than the trainer's --grace_secs
    drain_secs: float = 600  # for ps and evaluator, when training is done
    stall_timeout: float = 1800  # without a step, as the trainer's --step_timeout_secs; 0: for ever

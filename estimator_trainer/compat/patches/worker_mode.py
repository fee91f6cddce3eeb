"""Whether a strategy trains in several tasks.

Touches: StrategyExtended._in_multi_worker_mode, which TensorFlow asks itself
Without it: the tasks agree in an all-reduce of their own also where there is one task, or never where there are several
For: the trainer and every program
"""


def is_of_several(strategy) -> bool:
    """Whether its replicas are in several tasks."""
    return strategy.extended._in_multi_worker_mode()

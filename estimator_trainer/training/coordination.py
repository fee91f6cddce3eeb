"""What synchronous workers do together: they wait for each other, tell each other short texts, and add up gradients in
shared memory."""

import contextlib
import json
import logging
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.patches import coordination_service, python_all_reduce
from estimator_trainer.monitoring.profiles.event_names import ADD_UP
from estimator_trainer.this_process import shared_memory
from estimator_trainer.training.plan import Plan

_log = logging.getLogger('estimator_trainer')
_annotation = tf.profiler.experimental.Trace

UNBOUNDED_SECS = 7 * 24 * 3600  # where a flag says that there is no bound
_ASK_SECS = 10  # for an answer that is there already; Python stands still meanwhile


def wait_for_all(moment: str, timeout_secs: int) -> None:
    """Waits until every synchronous worker is at the same moment of the run.

    If a worker leaves early, the others' last all-reduce fails, and they report it as lost. This is TensorFlow's
    barrier: it fails at once if a task is lost.

    Raises:
        tf.errors.OpError: a worker was lost, or `timeout_secs` have passed.
    """
    coordination_service.wait_at_barrier(f'estimator_trainer/{moment}', timeout_secs * 1000)


def tell(what: str, text: str) -> None:
    """Tells every synchronous worker something, which `hear` gives. Once for each `what`."""
    coordination_service.send_text(f'estimator_trainer/{what}', text)


def hear(what: str) -> str:
    """What a task has told before a moment at which all have been.

    Raises:
        tf.errors.OpError: it can no longer be asked for.
    """
    return coordination_service.received_text(f'estimator_trainer/{what}', _ASK_SECS * 1000)


def connect_memory(plan: Plan) -> shared_memory.SharedMemory | None:
    """Lets the synchronous tasks of one machine add up gradients in shared memory, in place of TensorFlow's gRPC.

    For the gradients of a small CNN (1.4 MB) and two processes that is 0.3 ms in place of 6. Each task calls this, at
    the same moment. Tasks that cannot share memory go on with gRPC.

    Returns:
        The memory; None where gradients go over the network.

    Raises:
        tf.errors.OpError: a task was lost.
    """
    place = shared_memory.place() if plan.config.all_reduce == 'auto' and _on_cpus() else None
    listener: shared_memory.Listener | None = None
    with contextlib.suppress(OSError):  # where a system allows no such socket
        listener = shared_memory.Listener() if place else None
    place = place if listener else None
    tell(f'memory/{plan.training_index}', json.dumps((place, listener and listener.address)))
    wait_for_all('memory', plan.config.join_timeout_secs)
    of_tasks = [json.loads(hear(f'memory/{index}')) for index in range(plan.num_training_tasks)]
    if len({place for place, _ in of_tasks}) > 1 or listener is None:
        return None
    addresses = [address for _, address in of_tasks]
    memory: shared_memory.SharedMemory | None = None
    problem = None
    try:
        memory = listener.connect(plan.training_index, addresses, plan.config.join_timeout_secs)
    except OSError as error:  # two containers may look like one place, and may be kept apart all the same
        problem = repr(error)
    tell(f'memory_connected/{plan.training_index}', json.dumps(problem))
    wait_for_all('memory_connected', 2 * plan.config.join_timeout_secs)
    problems = [json.loads(hear(f'memory_connected/{index}')) for index in range(plan.num_training_tasks)]
    if memory is None or any(problems):
        if plan.is_chief:
            _log.info('gradients go over the network: shared memory failed (%s)', next(filter(None, problems)))
        return None
    names = [f'/job:{task.role}/task:{task.index}' for task in plan.cluster.training_tasks]
    add_up_in(memory, names)
    if plan.is_chief:
        _log.info('the %d tasks of this machine add up gradients in shared memory', memory.size)
    return memory


def _on_cpus() -> bool:
    return not tf.config.get_visible_devices('GPU')


def add_up_in(memory: shared_memory.SharedMemory, names: Sequence[str]) -> None:
    """Lets TensorFlow's all-reduces of this process use the memory where they can.

    Args:
        memory: shared_memory.SharedMemory.
        names: of the tasks, in the order of their ranks, for errors.
    """

    def add_up(group: int, instance: int, array: np.ndarray, holds_up: bool = True) -> np.ndarray:
        try:
            # Gradients of float16 may overflow. The step looks for that, and repeats it: NumPy need not warn of it.
            with _annotation(ADD_UP), np.errstate(over='ignore', invalid='ignore'):
                return memory.add_up((int(group) << 32) + int(instance), array, holds_up)
        except shared_memory.TaskLost as error:
            text = f'all-reduce in shared memory lost {names[error.rank]}'
            raise tf.errors.UnavailableError(None, None, text) from error

    python_all_reduce.install(add_up, memory.size)

"""What is measured beside what: each case has entries that take turns, and the first one is the base of the ratios."""

import dataclasses
from collections.abc import Callable

from benchmarks.entries import (
    EVALUATIONS,
    allocator,
    alone,
    checkpoint,
    custom_loop,
    evaluation,
    from_arrays,
    keras_fit,
    looked_on,
    mirrored,
    more_workers,
    overhead,
    parameter_servers,
    restart,
    start_up,
    store,
    store_end,
    two_workers,
    with_flag,
)


@dataclasses.dataclass(frozen=True)
class Case:
    """Entries that are compared.

    Attributes:
        title: for people.
        entries: (steps, plain) -> list of Entry; `plain` is a Python with TensorFlow 2.15, or ''.
        steps: of training, unless --steps says it.
        measures: {name in what an entry measured: unit}.
    """

    title: str
    entries: Callable
    steps: int
    measures: dict = dataclasses.field(default_factory=lambda: {'steps_per_sec': 'steps/s'})


_EVALUATION = {'evaluation_secs': 's', 'mib_after_5': 'MiB', 'mib_at_end': 'MiB'}
_MEMORY = {'steps_per_sec': 'steps/s', 'mib_peak': 'MiB'}
_LOOKED_ON = {'steps_per_sec': 'steps/s', 'scrapes': 'scrapes'}
_BFLOAT16, _BOTH = '--mixed_precision=bfloat16', ('estimator', 'custom_loop')
CASES = {
    'cnn': Case('CNN, one process', alone('cnn', 'estimator_script'), 1500),
    'small_dnn': Case('Small DNN, one process', alone('small_dnn', 'small_dnn_script'), 20_000),
    'wide_and_deep': Case('Wide and deep, one process', alone('wide_and_deep', 'wide_and_deep_script'), 600),
    'mirrored': Case('CNN, two replicas in one process', mirrored, 600),
    'two_workers': Case('CNN, two synchronous workers', two_workers, 800),
    'more_workers': Case('CNN, a global batch of 256', more_workers, 300),
    'parameter_servers': Case('Wide and deep, chief, worker and parameter server', parameter_servers, 800),
    'keras_fit': Case("CNN, Keras's fit", keras_fit('cnn'), 1500),
    'keras_fit_small_dnn': Case("Small DNN, Keras's fit", keras_fit('small_dnn'), 20_000),
    'custom_loop': Case('CNN, a custom loop', custom_loop('cnn'), 1500),
    'custom_loop_small_dnn': Case('Small DNN, a custom loop', custom_loop('small_dnn'), 20_000),
    'bfloat16_cnn': Case('CNN in bfloat16, batches of 64', with_flag(_BFLOAT16, 'cnn', 64, *_BOTH), 600),
    'bfloat16_cnn_256': Case('CNN in bfloat16, batches of 256', with_flag(_BFLOAT16, 'cnn', 256, *_BOTH), 200),
    'bfloat16_large_cnn': Case('A larger CNN in bfloat16', with_flag(_BFLOAT16, 'large_cnn', 64, *_BOTH), 60),
    'xla_small_dnn': Case('Small DNN with XLA', with_flag('--xla', 'small_dnn', 64, 'custom_loop'), 20_000),
    'xla_cnn': Case('CNN with XLA', with_flag('--xla', 'cnn', 64, 'custom_loop'), 600),
    'xla_large_cnn': Case('A larger CNN with XLA', with_flag('--xla', 'large_cnn', 64, 'custom_loop'), 60),
    'start_up': Case('Command to one step, one checkpoint, one evaluation', start_up, 1, {'seconds': 's'}),
    'restart': Case('Two workers: to the next new step', restart, 1, {'seconds_to_step': 's'}),
    'evaluation': Case(f'{EVALUATIONS} evaluations in one process', evaluation, EVALUATIONS, _EVALUATION),
    'checkpoint': Case('A checkpoint of 500 MB after each step', checkpoint, 12, {'checkpoint_secs': 's'}),
    'allocator': Case('CNN, memory that is kept', allocator, 1500, _MEMORY),
    'from_arrays_small_dnn': Case('Small DNN, batches from arrays', from_arrays('small_dnn'), 20_000, _MEMORY),
    'from_arrays_cnn': Case('CNN, batches from arrays', from_arrays('cnn'), 1500, _MEMORY),
    'looked_on_cnn': Case('CNN that is looked on', looked_on('cnn'), 4000, _LOOKED_ON),
    'looked_on_small_dnn': Case('Small DNN that is looked on', looked_on('small_dnn'), 60_000, _LOOKED_ON),
    'store': Case('CNN, a checkpoint of 100 MB every 30 s', store, 20_000),
    'store_end': Case('SIGTERM to sent, by the size of the checkpoint', store_end, 1_000_000, {'secs_to_sent': 's'}),
    'overhead_cnn': Case('The loop around the CNN', overhead('cnn', 'estimator_script'), 1500),
    'overhead_small_dnn': Case('The loop around the small DNN', overhead('small_dnn', 'small_dnn_script'), 20_000),
}
# Programs of this folder that take turns, and print tables, themselves.
SCRIPTS = (
    'all_reduce',
    'data_order',
    'file_batches',
    'flights_baseline',
    'import_cost',
    'many_tasks',
    'secure_link',
    'step_time',
)

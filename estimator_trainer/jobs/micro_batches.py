"""The training data of steps that accumulate the gradients of several batches: --accumulate_steps.

A step of K micro-batches reads the examples that a step of K times as many replicas would read. To the input_fn each
micro-batch is a step of its own: its params count in these.
"""

from typing import TYPE_CHECKING, Any

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs.input_fns import InputFnOfAll
from estimator_trainer.jobs.job_types import Mode, Params, RunConfig

if TYPE_CHECKING:
    import tensorflow as tf

_TRAIN = 'train'
_TIMES, _DIVIDED = ('start_step', 'max_steps', 'steps_per_epoch'), ('num_replicas', 'global_batch_size')


def input_fn_of_steps(input_fn: InputFnOfAll, count: int) -> InputFnOfAll:
    """The input_fn of steps of `count` micro-batches. It gives whole steps only: what is left of finite data after the
    last of them is dropped, and what cannot be read ends training before the step has begun.

    Raises (the new one):
        UsageError: the input_fn returns no data set.
    """
    if count == 1:
        return input_fn

    def call(
        mode: Mode, params: Params, input_context: 'tf.distribute.InputContext | None' = None, config: RunConfig = None
    ) -> 'tf.data.Dataset':
        if mode != _TRAIN:
            return input_fn(mode, params, input_context, config)
        import tensorflow as tf

        from estimator_trainer.data import pipeline

        given = input_fn(mode, params_of_input(params, count), input_context, config)
        if not isinstance(given, tf.data.Dataset):
            raise UsageError(
                f'--accumulate_steps={count}: the input_fn returns a {type(given).__name__}, which gives no '
                'second batch for a step: let it return the tf.data.Dataset itself, or leave the flag out.'
            )
        replicas = 1  # that take batches of this pipeline in turn
        if input_context:
            replicas = max(1, input_context.num_replicas_in_sync // input_context.num_input_pipelines)
        # Batches in memory are endless.
        return pipeline.carrying(whole_groups(given, count * replicas), pipeline.in_memory(given))

    return call


def params_of_input(params: Params, count: int) -> dict[str, Any]:
    """The params of a run whose steps are the micro-batches."""
    return {
        **params,
        **{name: params[name] * count for name in _TIMES},
        **{name: params[name] // count for name in _DIVIDED},
    }


def whole_groups(batches: 'tf.data.Dataset', count: int) -> 'tf.data.Dataset':
    """Gives the batches in groups of `count`: the first of a group comes when all of it is there. What is left at the
    end and makes up no group is dropped."""
    import tensorflow as tf

    def in_turn(*components: Any) -> 'tf.data.Dataset':
        return tf.data.Dataset.zip(components if len(components) > 1 else components[0])

    structure = batches.element_spec
    none = tf.type_spec_from_value(None)
    are_none = [spec == none for spec in tf.nest.flatten(structure)]

    def without_none(*batch: Any) -> tuple[Any, ...]:
        return tuple(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)

    def with_none(*leaves: Any) -> Any:
        left = iter(leaves)
        return tf.nest.pack_sequence_as(structure, [None if is_none else next(left) for is_none in are_none])

    has_none = any(are_none)  # such as labels, of which a window cannot be made
    tensors = batches.map(without_none) if has_none else batches
    groups = tensors.window(count, drop_remainder=True).flat_map(in_turn)
    groups = groups.map(with_none) if has_none else groups
    infinite = tf.data.experimental.INFINITE_CARDINALITY
    if tf.executing_eagerly() and int(batches.cardinality()) == infinite:  # else workers ask each other in each step
        groups = groups.apply(tf.data.experimental.assert_cardinality(infinite))
    return groups

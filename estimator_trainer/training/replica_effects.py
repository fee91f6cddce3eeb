"""Finds what makes the weights depend on the number of replicas: clips, undivided gradients, batch normalization.

`compute_gradients` divides the gradients of a replica by the number of replicas, and `apply_gradients` adds them up.
What clips in between sees one replica's share: the threshold of one process clips less of it. The same is true of
micro-batches (--accumulate_steps). With --sync_ps the gradients are those of one worker, not divided, and their mean is
applied. What tf.gradients gives is not divided either, but added up; nor is what an optimizer of Keras computes.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import counted_replicas, optimizer_parts
from estimator_trainer.jobs import source_text
from estimator_trainer.training import step_graph
from estimator_trainer.training.plan import Plan

v1 = tf.compat.v1
_log = logging.getLogger('estimator_trainer')
# The names that TensorFlow's functions give to their operations.
_CLIP = re.compile(r'(?:^|/)(clip_by_(?:value|norm|average_norm|global_norm))(?:_\d+)?(?:/|$)')
_OF_MOMENTS = re.compile(r'(?:^|/)moving_mean(?:_\d+)?(?::\d+)?$')  # as all layers of batch normalization name it
_SIZES = re.compile(r'\b(?:num_replicas(?:_in_sync)?|global_batch_size)\b')
_COUNTS_WORKERS = re.compile(r'\bnum_replicas\b')
_GRADIENT = re.compile(r'(?:^|/)(?:gradients|gradient_tape)(?:_\d+)?/')


def warn(targets: Iterable[tf.Operation], plan: Plan, model_fn: Callable[..., object] | None) -> None:
    """Says that the gradients are clipped or not divided, and what helps, if a step adds up those of several batches.

    Says nothing of the clips of a model_fn, or of an optimizer of Keras, if its file, or a module beside it, names
    `num_replicas`, `num_replicas_in_sync` or `global_batch_size`: it may divide its threshold, or its loss, by that.

    Args:
        targets: what a step of training runs.
        model_fn: of the job, or its make_estimator.
    """
    count = plan.batches_per_step
    if count == 1:
        return
    with lacks.or_without():
        if not plan.uses_parameter_servers and _applies_others(v1.get_default_graph()):
            _log.warning(
                'WARNING: the model_fn applies gradients that no optimizer has computed, as those of tf.gradients. '
                'They are added up undivided: a step is as large as %d steps of one batch. Use '
                'optimizer.compute_gradients(loss) (docs/jobs.md, rule 1).',
                count,
            )
            return
        text = model_fn and source_text.beside(model_fn) or ''
        divides = _SIZES.search(text)
        undivided = optimizer_parts.has_keras_applied(v1.get_default_graph()) and not counted_replicas.loss_is_divided()
        if undivided and not plan.uses_parameter_servers and not divides:
            _log.warning(
                'WARNING: the model_fn trains by an optimizer of Keras, which adds up the gradients of all %d batches '
                "of a step undivided. Unless its loss is divided by params['num_replicas'], a step is as large as %d "
                'steps of one batch (docs/jobs.md, rule 1).',
                count,
                count,
            )
        elif undivided and plan.uses_parameter_servers and _COUNTS_WORKERS.search(text):
            _log.warning(
                'WARNING: the model_fn trains by an optimizer of Keras, and --sync_ps applies the mean of the '
                "gradients of the workers. Where the model_fn divides its loss by params['num_replicas'], steps are "
                'too small: divide it by tf.distribute.get_strategy().num_replicas_in_sync in its place (docs/jobs.md, '
                'rule 1).'
            )
        functions = clips(targets)
        if functions and plan.uses_parameter_servers:
            _log.warning(
                'WARNING: the model_fn clips gradients by %s before the mean of those of all %d workers is taken. The '
                'weights then depend on the number of workers (docs/recipes.md, clipping).',
                ' and '.join(functions),
                count,
            )
        elif functions and not divides:
            _log.warning(
                'WARNING: the model_fn clips gradients by %s before those of all %d batches of a step are added up, '
                "each divided by %d. Unless it divides its threshold by params['num_replicas'], it clips less than one "
                'process does (docs/recipes.md, clipping).',
                ' and '.join(functions),
                count,
                count,
            )


def _applies_others(graph: tf.Graph) -> bool:
    """Whether an optimizer has applied gradients that none has computed. compute_gradients divides by the number of
    replicas, and tf.gradients does not."""
    computed, applied = optimizer_parts.noted_gradients(graph)
    return any(
        not any(op.name in computed for op in step_graph.needed([graph.get_operation_by_name(name)]))
        for name in applied
    )


def say_batch_normalization(variables: Iterable[str], plan: Plan) -> None:
    """Says what it computes, if a step takes several batches. `variables`: the names of those of the training."""
    if plan.batches_per_step > 1 and any(_OF_MOMENTS.search(name) for name in variables):
        _log.info(
            'batch normalization: where it trains, each of the %d batches of a step has a mean and a variance of its '
            'own, and one process with the whole batch trains other weights (docs/jobs.md, rule 4)',
            plan.batches_per_step,
        )


def warn_of_weights(flag: str, ops: Iterable[tf.Operation], applied: Collection[str], how: str) -> None:
    """Says which weights are changed by something else than the apply_gradients of TensorFlow's optimizers.

    Args:
        flag: for which that matters.
        ops: of a step, all in one graph.
        applied: the names of the variables that were given to such an apply_gradients.
        how: the other weights are updated, as the end of a sentence.
    """
    weights = names_of(v1.trainable_variables()) - set(applied)
    ops = list(ops) if weights else []
    functions = step_graph.Functions(ops[0].graph) if ops else None
    changed = {
        tensor.op.name
        for op in ops
        for tensor in op.inputs
        if tensor.op.name in weights and functions and functions.may_write(op)
    }
    if changed:
        _log.warning(
            'WARNING: %s: the updates of %s come from no apply_gradients of TensorFlow, but maybe from that of a class '
            'of the job. They are made %s.',
            flag,
            ' and '.join(sorted(changed)[:2]) + (f' and {len(changed) - 2} more' if len(changed) > 2 else ''),
            how,
        )


def names_of(variables: Iterable[tf.Variable]) -> set[str]:
    """The names of the operations that stand for variables in a graph; of no others."""
    return {variable.op.name for variable in variables if hasattr(variable, 'op')}


def clips(targets: Iterable[tf.Operation]) -> list[str]:
    """The names of the functions by which the gradients of these operations are clipped."""
    needed = step_graph.needed(targets)
    of_gradients = step_graph.computed_with(op for op in needed if _GRADIENT.search(op.name))
    others = (op for op in needed if op in of_gradients and not _GRADIENT.search(op.name))  # no gradient of a clip
    return sorted({match[1] for op in others if (match := _CLIP.search(op.name))})

"""Finds what makes the weights depend on the number of replicas: clips, undivided gradients, batch normalization.

`compute_gradients` divides the gradients of a replica by the number of replicas, and `apply_gradients` adds them up.
What clips in between sees one replica's share: the threshold of one process clips less of it. The same is true of
micro-batches (--accumulate_steps). With --sync_ps the gradients are those of one worker, not divided, and their mean is
applied. What tf.gradients gives is not divided either, but added up; nor is what an optimizer of Keras computes.
"""

import logging
import re
from collections.abc import Callable, Iterable

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.jobs import source_text
from estimator_trainer.training import step_graph
from estimator_trainer.training.plan import Plan

v1 = tf.compat.v1
_log = logging.getLogger('estimator_trainer')
# The names that TensorFlow's functions give to their operations.
_CLIP = re.compile(r'(?:^|/)(clip_by_(?:value|norm|average_norm|global_norm))(?:_\d+)?(?:/|$)')
_OF_MOMENTS = re.compile(r'(?:^|/)moving_mean(?:_\d+)?(?::\d+)?$')  # as all layers of batch normalization name it
_SIZES = re.compile(r'\b(?:num_replicas|global_batch_size)\b')
_GRADIENT = re.compile(r'(?:^|/)(?:gradients|gradient_tape)(?:_\d+)?/')


def warn(targets: Iterable[tf.Operation], plan: Plan, model_fn: Callable[..., object] | None) -> None:
    """Says that the gradients are clipped or not divided, and what helps, if a step adds up those of several batches.

    Says nothing of the clips of a model_fn, or of an optimizer of Keras, if its file, or a module beside it, names
    `num_replicas` or `global_batch_size`: it may divide its threshold, or its loss, by that.

    Args:
        targets: what a step of training runs.
        model_fn: of the job, or its make_estimator.
    """
    count = plan.batches_per_step
    if count == 1:
        return
    with lacks.or_without():
        if not plan.uses_parameter_servers and optimizer_parts.applies_what_it_has_not_computed(v1.get_default_graph()):
            _log.warning(
                'WARNING: the model_fn applies gradients that no optimizer has computed, as those of tf.gradients. '
                'They are added up undivided: a step is as large as %d steps of one batch. Use '
                'optimizer.compute_gradients(loss) (docs/jobs.md, rule 1).',
                count,
            )
            return
        divides = _SIZES.search(model_fn and source_text.beside(model_fn) or '')
        if not plan.uses_parameter_servers and not divides and optimizer_parts.has_keras_applied(v1.get_default_graph()):
            _log.warning(
                'WARNING: the model_fn trains by an optimizer of Keras, which adds up the gradients of all %d batches '
                "of a step undivided. Unless its loss is divided by params['num_replicas'], a step is as large as %d "
                'steps of one batch (docs/jobs.md, rule 1).',
                count,
                count,
            )
            return
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


def say_batch_normalization(variables: Iterable[str], plan: Plan) -> None:
    """Says what it computes, if a step takes several batches. `variables`: the names of those of the training."""
    if plan.batches_per_step > 1 and any(_OF_MOMENTS.search(name) for name in variables):
        _log.info(
            'batch normalization: where it trains, each of the %d batches of a step has a mean and a variance of its '
            'own, and one process with the whole batch trains other weights (docs/jobs.md, rule 4)',
            plan.batches_per_step,
        )


def clips(targets: Iterable[tf.Operation]) -> list[str]:
    """The names of the functions by which the gradients of these operations are clipped."""
    needed = step_graph.needed(targets)
    of_gradients = step_graph.computed_with(op for op in needed if _GRADIENT.search(op.name))
    others = (op for op in needed if op in of_gradients and not _GRADIENT.search(op.name))  # no gradient of a clip
    return sorted({match[1] for op in others if (match := _CLIP.search(op.name))})

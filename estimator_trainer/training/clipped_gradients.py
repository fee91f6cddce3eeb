"""Finds gradients that a model_fn clips before those of other replicas are added to them.

`compute_gradients` divides the gradients of a replica by the number of replicas, and `apply_gradients` adds them up.
What clips in between sees one replica's share. The threshold of one process clips less of it, and the weights depend on
the number of replicas. The same is true of micro-batches (--accumulate_steps). With --sync_ps the gradients are those
of one worker, not divided, and their mean is applied. What tf.gradients gives is not divided either, but added
up.
"""

import logging
import re
from collections.abc import Iterable

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.training import step_graph
from estimator_trainer.training.plan import Plan

v1 = tf.compat.v1
_log = logging.getLogger('estimator_trainer')
# The names that TensorFlow's functions give to their operations.
_CLIP = re.compile(r'(?:^|/)(clip_by_(?:value|norm|average_norm|global_norm))(?:_\d+)?(?:/|$)')
_GRADIENT = re.compile(r'(?:^|/)(?:gradients|gradient_tape)(?:_\d+)?/')


def warn(targets: Iterable[tf.Operation], plan: Plan) -> None:
    """Says that the gradients are clipped or not divided, and what helps, if a step adds up those of several batches.

    Args:
        targets: what a step of training runs.
    """
    count = plan.num_replicas * plan.config.accumulate_steps
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
        functions = clips(targets)
        if functions and plan.uses_parameter_servers:
            _log.warning(
                'WARNING: the model_fn clips gradients by %s before the mean of those of all %d workers is taken. The '
                'weights then depend on the number of workers (docs/recipes.md, clipping).',
                ' and '.join(functions),
                count,
            )
        elif functions:
            _log.warning(
                'WARNING: the model_fn clips gradients by %s before those of all %d batches of a step are added up, '
                "each divided by %d. Unless it divides its threshold by params['num_replicas'], it clips less than one "
                'process does (docs/recipes.md, clipping).',
                ' and '.join(functions),
                count,
                count,
            )


def clips(targets: Iterable[tf.Operation]) -> list[str]:
    """The names of the functions by which the gradients of these operations are clipped."""
    needed = step_graph.needed(targets)
    of_gradients = step_graph.computed_with(op for op in needed if _GRADIENT.search(op.name))
    others = (op for op in needed if op in of_gradients and not _GRADIENT.search(op.name))  # no gradient of a clip
    return sorted({match[1] for op in others if (match := _CLIP.search(op.name))})

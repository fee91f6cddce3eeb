"""Makes `BestExporter.export` remember the best model over a restart.

Touches: BestExporter.export, and what it keeps in private attributes
Without it: BestExporter exports a worse model after a restart
For: every program

Upstream reads the best evaluation so far from the event files, but it exports the first model after a restart in any
case: the evaluation of that model is already in those files, so that the model could never be better than the best.
Here that evaluation is left out, and the folder of the exports tells whether there is an export.
"""

import os


def mend(module) -> None:
    """Mends `tensorflow_estimator.python.estimator.exporter`."""
    module.BestExporter.export = export


def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
    """Exports if nothing is exported yet or the result beats the best earlier one."""
    import tensorflow as tf

    if self._model_dir != estimator.model_dir and self._event_file_pattern:
        self._model_dir = estimator.model_dir
        step = (eval_result or {}).get(tf.compat.v1.GraphKeys.GLOBAL_STEP)
        self._best_eval_result = _best_earlier(
            os.path.join(self._model_dir, self._event_file_pattern), self._compare_fn, step
        )
        # Without a step nothing tells this evaluation from the earlier ones: it is exported, as upstream does.
        self._has_exported = step is not None and _has_exports(export_path)
    if (
        self._has_exported
        and self._best_eval_result is not None
        and not self._compare_fn(best_eval_result=self._best_eval_result, current_eval_result=eval_result)
    ):
        return None
    self._best_eval_result = eval_result
    result = self._saved_model_exporter.export(
        estimator, export_path, checkpoint_path, eval_result, is_the_final_export
    )
    self._garbage_collect_exports(export_path)
    self._has_exported = True
    return result


def _best_earlier(pattern, compare_fn, step):
    """The best evaluation in the event files, those of `step` aside."""
    import tensorflow as tf

    best = None
    for path in tf.io.gfile.glob(pattern):
        for event in tf.compat.v1.train.summary_iterator(path):
            result = {value.tag: value.simple_value for value in event.summary.value if value.HasField('simple_value')}
            if (
                result
                and event.step != step
                and (best is None or compare_fn(best_eval_result=best, current_eval_result=result))
            ):
                best = result
    return best


def _has_exports(path) -> bool:
    import tensorflow as tf

    try:
        return tf.io.gfile.isdir(path) and any(name.strip('/').isdigit() for name in tf.io.gfile.listdir(path))
    except tf.errors.OpError:  # a folder that may not be listed: it is exported, as upstream does
        return False

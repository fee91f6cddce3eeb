"""The exports of a run: `export/best` and `export/final`.

`Exports` is told of every evaluation. Its exporters are Estimator exporters, which decide whether to
write a SavedModel into `export/<name>/<timestamp>`.
"""

import json
import logging
import math
import os
import shutil

import tensorflow as tf

from estimator_trainer.jobs import input_fns
from estimator_trainer.run_dir import protocol

_log = logging.getLogger('estimator_trainer')
_BEST_JSON = 'best.json'
_FINAL = 'final'  # the exporter of the end of training
_UNFINISHED = 'temp-'  # TensorFlow writes a SavedModel into temp-<timestamp>, then renames the folder


class Exports:
    """What `--export` asks for. Whoever evaluates writes it, once for each evaluation.

    `write` may be called again for an evaluation whose exports a process did not finish: what is there
    already is not written a second time.

    Args:
        exporters: as `make` gives them.
    """

    def __init__(self, model_dir: str, exporters):
        self._exporters = [(exporter, os.path.join(model_dir, 'export', exporter.name)) for exporter in exporters]

    def __bool__(self):
        return bool(self._exporters)

    @property
    def metric(self) -> str | None:
        """What the best model is chosen by; None where no best model is exported."""
        return next((exporter.metric for exporter, _ in self._exporters if isinstance(exporter, BestExporter)), None)

    def finals(self) -> tuple:
        """The names of the final exports that there are."""
        return tuple(
            name for exporter, folder in self._exporters if exporter.name == _FINAL for name in _saved_models(folder)
        )

    def write(self, evaluator, result, final: bool, finals_before) -> None:
        """Exports an evaluated checkpoint, as far as this has not been done.

        Args:
            evaluator, result: evaluation.evaluation.Evaluator, and the Result that it has given.
            final: training has ended with this checkpoint.
            finals_before: what `finals` was before the checkpoint was taken up.
        """
        metrics = {**result.metrics, 'global_step': result.step}
        for exporter, folder in self._exporters:
            if exporter.name == BestExporter.name and result.step == 0:
                continue  # nothing was learnt yet
            if exporter.name == _FINAL and set(self.finals()) - set(finals_before):
                continue
            try:
                exporter.export(evaluator, folder, result.checkpoint, metrics, final)
            finally:
                remove_unfinished(folder)

    def remove_unfinished(self) -> None:
        """Removes what exports that were killed have left."""
        for _, folder in self._exporters:
            remove_unfinished(folder)


class BestExporter(tf.estimator.Exporter):
    """Keeps the SavedModel of the best evaluation so far, across restarts.

    What was best is read back from `export/best/best.json`: a worse model never replaces a better
    one. The new model is in its place before the old one goes. A SavedModel that best.json does not
    name is of an export that was interrupted; the next one removes it.

    Args:
        serving_input_fn: () -> ServingInputReceiver.
        metric: name in the evaluation's results.
        mode: 'min' or 'max'.
    """

    name = 'best'

    def __init__(self, serving_input_fn, metric: str, mode: str):
        self._serving_input_fn, self.metric, self._mode = serving_input_fn, metric, mode

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if self.metric not in eval_result:
            raise ValueError(
                f'export/best goes by {self.metric!r}, which the evaluation does not '
                f'give: it has {", ".join(sorted(eval_result))}.'
            )
        value = float(eval_result[self.metric])
        best = best_so_far(export_path)
        if not self._better(value, best):
            if best:
                _remove_others(export_path, best['saved_model'])
            return None
        path = estimator.export_saved_model(export_path, self._serving_input_fn, checkpoint_path=checkpoint_path)
        path = tf.compat.as_str_any(path)
        step = int(eval_result['global_step'])
        protocol.write_json(
            os.path.join(export_path, _BEST_JSON),
            {
                'metric': self.metric,
                'mode': self._mode,
                'value': value,
                'step': step,
                'saved_model': os.path.basename(path),
            },
        )
        _remove_others(export_path, os.path.basename(path))
        where = protocol.shown(path, os.environ)
        _log.info('export: %s %.4f at step %d is the best so far: %s', self.metric, value, step, where)
        return path

    def _better(self, value, best) -> bool:
        if math.isnan(value):
            return False
        if best is None or best['metric'] != self.metric or best['mode'] != self._mode:
            return True
        return value > best['value'] if self._mode == 'max' else value < best['value']


def make(kinds, job, serving_input_fn) -> list:
    """The exporters that `--export` asks for; none for a job that says nothing of serving."""
    if serving_input_fn is None:
        return []
    made = []
    if 'best' in kinds:
        made.append(BestExporter(serving_input_fn, job.best_metric, job.best_mode))
    if 'final' in kinds:
        made.append(tf.estimator.FinalExporter(_FINAL, serving_input_fn))
    return made


def serving_input_fn_of(job, params, dataset):
    """() -> ServingInputReceiver: the job's own, or that of the data set; None for a job that says nothing of serving.

    Args:
        params: jobs.run_params.RunParams.
        dataset: of jobs.job_data; None for a job with an input_fn of its own.
    """
    if job.serving_input_fn is not None:
        serving_input_fn = input_fns.serving(job.serving_input_fn)
        return lambda: serving_input_fn(params.as_dict())
    if dataset is None:
        return None
    if dataset.image_shape is None:
        return parsed_examples(dataset.serving_features)
    return raw_images(dataset.image_shape)


def parsed_examples(features):
    """A serving_input_fn that takes serialized tf.Examples. They hold float32, int64 and strings only: of a feature of
    another type, what they hold is converted."""
    held = {name: feature._replace(dtype=_in_examples(feature.dtype)) for name, feature in features.items()}
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(held)
    if held == dict(features):
        return receive

    def serving_input_fn():
        receiver = receive()
        converted = {name: tf.cast(tensor, features[name].dtype) for name, tensor in receiver.features.items()}
        return tf.estimator.export.ServingInputReceiver(converted, receiver.receiver_tensors)

    return serving_input_fn


def _in_examples(dtype):
    if dtype == tf.string:
        return tf.string
    return tf.float32 if dtype.is_floating else tf.int64


def raw_images(image_shape):
    """A serving_input_fn that takes uint8 [batch, height, width, channels], any batch size."""

    def serving_input_fn():
        images = tf.compat.v1.placeholder(tf.uint8, [None, *image_shape], name='image')
        return tf.estimator.export.ServingInputReceiver({'image': images}, {'image': images})

    return serving_input_fn


def best_so_far(export_path):
    """What best.json says; None where it is missing or not ours, or its SavedModel is gone."""
    try:
        with open(os.path.join(export_path, _BEST_JSON), encoding='utf-8') as file:
            best = json.load(file)
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    if not isinstance(best, dict) or {'metric', 'mode', 'value', 'saved_model'} - best.keys():
        return None
    return best if os.path.isdir(os.path.join(export_path, best['saved_model'])) else None


def _saved_models(folder) -> list:
    try:
        return sorted(name for name in os.listdir(folder) if name.isdigit())
    except FileNotFoundError:
        return []


def _remove_others(folder, kept) -> None:
    for name in _saved_models(folder):
        if name != kept:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def remove_unfinished(folder) -> None:
    """Removes what exports into the folder that were killed have left."""
    protocol.remove_unfinished(os.path.join(folder, _BEST_JSON))
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            if name.startswith(_UNFINISHED) and name[len(_UNFINISHED) :].isdigit():
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)

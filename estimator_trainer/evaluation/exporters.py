"""The exports of a run: `export/best` and `export/final`.

`Exports` is told of every evaluation. Its exporters are Estimator exporters, which decide whether to
write a SavedModel into `export/<name>/<timestamp>`.
"""

import contextlib
import json
import logging
import math
import os
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import evaluation_journal, serving_inputs
from estimator_trainer.evaluation.evaluation import Evaluator
from estimator_trainer.evaluation.serving_inputs import ServingInputFn
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.job_types import Estimator
from estimator_trainer.run_dir import events, file_names, files, locks, metrics_log, protocol, removal

_log = logging.getLogger('estimator_trainer')
_BEST_JSON = 'best.json'
_FINAL = 'final'  # the exporter of the end of training
_OWN = re.compile(r'temp-own-[0-9a-f]{8}')  # a folder of one export, which is sent to no store
_LOCK = '.lock'
Exporter: TypeAlias = Any  # tf.estimator.Exporter


class Exports:
    """What `--export` asks for. Whoever evaluates writes it, once for each evaluation.

    `write` may be called again for an evaluation whose exports a process did not finish: what is there
    already is not written a second time.

    Args:
        exporters: as `make` gives them.
        serving_input_fn: what they export with, to be checked.
    """

    def __init__(self, model_dir: str, exporters: Iterable[Exporter], serving_input_fn: ServingInputFn | None = None):
        self._serving_input_fn = serving_input_fn
        self._exporters = [(exporter, os.path.join(model_dir, 'export', exporter.name)) for exporter in exporters]

    def __bool__(self) -> bool:
        return bool(self._exporters)

    def check(self) -> None:
        """Looks whether there will be something to export. Raises UsageError."""
        if self._exporters and self._serving_input_fn:
            serving_inputs.check(self._serving_input_fn)

    @property
    def metric(self) -> str | None:
        """What the best model is chosen by; None where no best model is exported."""
        return next((exporter.metric for exporter, _ in self._exporters if isinstance(exporter, BestExporter)), None)

    def finals(self) -> tuple[str, ...]:
        """The names of the final exports that there are."""
        return tuple(
            name for exporter, folder in self._exporters if exporter.name == _FINAL for name in _saved_models(folder)
        )

    def write(
        self,
        evaluator: Evaluator,
        checkpoint: str,
        metrics: Mapping[str, Any],
        final: bool,
        finals_before: Iterable[str],
    ) -> None:
        """Exports an evaluated checkpoint, as far as this has not been done.

        Args:
            evaluator: evaluation.evaluation.Evaluator.
            metrics: of the checkpoint, and its `global_step`.
            final: training has ended with this checkpoint.
            finals_before: what `finals` was before the checkpoint was taken up.
        """
        for exporter, folder in self._exporters:
            if exporter.name == BestExporter.name and metrics['global_step'] == 0:
                continue  # nothing was learnt yet
            if exporter.name == _FINAL and set(self.finals()) - set(finals_before):
                continue
            try:
                exporter.export(InOwnFolder(evaluator), folder, checkpoint, metrics, final)
            finally:
                remove_unfinished(folder)

    def remove_unfinished(self) -> None:
        """Removes what exports that were killed have left."""
        for _, folder in self._exporters:
            remove_unfinished(folder)


class InOwnFolder:
    """An evaluator whose exports are written in folders of their own, and moved when they are whole and on the disk."""

    def __init__(self, evaluator: Evaluator):
        self._evaluator = evaluator

    def export_saved_model(
        self, folder: str, serving_input_fn: ServingInputFn, checkpoint_path: str, **options: Any
    ) -> str:
        """Writes folder/<seconds since the epoch>. Its path."""
        folder = os.path.abspath(tf.compat.as_str_any(folder))
        own = removal.claim(os.path.join(folder, f'temp-own-{secrets.token_hex(4)}'))
        try:
            with locks.Lock(os.path.join(own, _LOCK)) as lock:
                with contextlib.suppress(OSError):  # a file system without locks
                    lock.take()  # nobody takes the folder for left behind
                exported = self._evaluator.export_saved_model(
                    own, serving_input_fn, checkpoint_path=checkpoint_path, **options
                )
                exported = tf.compat.as_str_any(exported)
                removal.mark(exported)
                seconds = int(os.path.basename(exported))
                while os.path.lexists(path := os.path.join(folder, str(seconds))):
                    seconds += 1
                files.flush_tree(exported)
                os.rename(exported, path)
                files.flush(folder)
        finally:
            removal.tree(own, removal.Marked(own))
        return path


class BestExporter(tf.estimator.Exporter):
    """Keeps the SavedModel of the best evaluation so far, across restarts.

    What was best is read back from `export/best/best.json`: a worse model never replaces a better
    one. The new model is in its place before the old one goes. A SavedModel that best.json does not
    name is of an export that was interrupted; the next one removes it.

    Args:
        serving_input_fn: () -> ServingInputReceiver.
        metric: name in the evaluation's results.
        mode: 'min' or 'max'.
        data: what is evaluated on, as the data set describes it; '' for unknown. What was best on other data does not
            count.
    """

    name = 'best'

    def __init__(self, serving_input_fn: ServingInputFn, metric: str, mode: str | None, data: str = ''):
        self._serving_input_fn, self.metric, self._mode, self._data = serving_input_fn, metric, mode, data
        self._earlier: dict[str, Any] | None = None

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        if self.metric not in eval_result:
            raise ValueError(
                f'export/best goes by {self.metric!r}, which the evaluation does not '
                f'give: it has {", ".join(sorted(eval_result))}.'
            )
        if np.size(eval_result[self.metric]) != 1:
            shape = np.shape(eval_result[self.metric])
            raise UsageError(f'export/best goes by {self.metric!r}, which has the shape {shape}: give it one number.')
        value = float(np.reshape(eval_result[self.metric], ()))
        best = best_so_far(export_path) or self._repaired(export_path, int(eval_result['global_step']))
        best = best or self._of_an_earlier_program(export_path)
        may_be_best = metrics_log.may_be_best({**eval_result, self.metric: value}, self.metric)
        if not may_be_best or not self._better(value, best):
            if best and best['saved_model']:
                _remove_others(export_path, best['saved_model'], best)
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
                **({'data': self._data} if self._data else {}),
            },
            durable=True,
        )
        files.flush(export_path)  # the name of best.json, before the model that the old one names goes
        _remove_others(export_path, os.path.basename(path), best if best and best['saved_model'] else None)
        where = protocol.path_for_user(path, os.environ)
        _log.info('export: %s %.4f at step %d is the best so far: %s', self.metric, value, step, where)
        return path

    def _repaired(self, export_path: str, step: int) -> dict[str, Any] | None:
        """What a damaged best.json has said, by the evaluations before `step`. A new one is written. None: it is not
        damaged, or there is nothing to keep."""
        path = os.path.join(export_path, _BEST_JSON)
        models = [name for name in _saved_models(export_path) if removal.is_marked(os.path.join(export_path, name))]
        if not models or not os.path.isfile(path) or _is_object(path):
            return None
        log_path = os.path.join(os.path.dirname(os.path.dirname(export_path)), file_names.EVALUATIONS)
        lines = [line for line in metrics_log.MetricsLog(log_path).read() if line.get('step') != step]
        lines = [line for line in lines if self.metric in line and metrics_log.may_be_best(line, self.metric)]
        if not lines:
            return None
        choose = max if self._mode == 'max' else min
        line = choose(lines, key=lambda line: line[self.metric])
        known = {'metric': self.metric, 'mode': self._mode, 'value': line[self.metric], 'step': line['step']}
        best = {**known, 'saved_model': models[-1]}
        _log.warning('WARNING: export: %s is damaged; the best evaluation so far says what it has said', path)
        protocol.write_json(path, best, durable=True)
        return best

    def _of_an_earlier_program(self, export_path: str) -> dict[str, Any] | None:
        """Its best evaluation in this model_dir, as best.json would say it, but without a SavedModel; None: no such."""
        if self._earlier is None:
            step, value = events.best(os.path.dirname(os.path.dirname(export_path)), self.metric, self._mode == 'max')
            known = {'metric': self.metric, 'mode': self._mode, 'value': value, 'step': step, 'saved_model': ''}
            self._earlier = known if step is not None else {}
            if step is not None:
                said = 'export: an earlier program had %s %.4f at step %d here: only a better model is exported'
                _log.info(said, self.metric, value, step)
        return self._earlier or None

    def _better(self, value: float, best: Mapping[str, Any] | None) -> bool:
        if best is None or best['metric'] != self.metric or best['mode'] != self._mode:
            return True
        if not math.isfinite(best['value']):  # as earlier versions wrote it
            return True
        if evaluation_journal.are_other_data(best.get('data') or '', self._data):
            return True
        return value > best['value'] if self._mode == 'max' else value < best['value']


def make(kinds: Collection[str], job: Job, serving_input_fn: ServingInputFn | None, data: str = '') -> list[Exporter]:
    """The exporters that `--export` asks for; none for a job that says nothing of serving.

    Args:
        data: what is evaluated on, as the data set describes it; '' for unknown.
    """
    if serving_input_fn is None:
        return []
    made: list[Exporter] = []
    if 'best' in kinds:
        made.append(BestExporter(serving_input_fn, job.best_metric, job.best_mode, data))
    if 'final' in kinds:
        made.append(tf.estimator.FinalExporter(_FINAL, serving_input_fn))
    return made


def best_so_far(export_path: str) -> dict[str, Any] | None:
    """What best.json says; None where it is missing or not ours, or its SavedModel is gone."""
    try:
        with open(os.path.join(export_path, _BEST_JSON), encoding='utf-8') as file:
            best = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(best, dict) or {'metric', 'mode', 'value', 'saved_model'} - best.keys():
        return None
    return best if os.path.isdir(os.path.join(export_path, best['saved_model'])) else None


def _is_object(path: str) -> bool:
    try:
        return bool(protocol.read_object(path))
    except ValueError:
        return False


def _saved_models(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.isdigit())
    except FileNotFoundError:
        return []


def _remove_others(folder: str, kept: str, best: Mapping[str, Any] | None) -> None:
    """Removes the SavedModels of earlier exports: those with our mark, and the one that best.json has named."""
    for name in _saved_models(folder):
        path = os.path.join(folder, name)
        is_named = best is not None and name == best['saved_model']
        proof = removal.Written([path]) if is_named else removal.Marked(path)
        if name != kept and proof.covers(path):
            removal.tree(path, proof)


def remove_unfinished(folder: str) -> None:
    """Removes what exports into the folder that were killed have left; not what another process writes there now."""
    protocol.remove_unfinished(os.path.join(folder, _BEST_JSON))
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if _OWN.fullmatch(name) and removal.is_marked(path) and not locks.is_held(os.path.join(path, _LOCK)):
            removal.tree(path, removal.Marked(path))

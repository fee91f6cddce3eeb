"""Evaluations of a run on a machine that dies at a chosen moment."""

import itertools
import os
import types

import tensorflow as tf

from estimator_trainer.evaluation import early_stopping, evaluation, evaluation_journal, exporters
from estimator_trainer.run_dir import metrics_log, protocol

v1 = tf.compat.v1


LOSSES = {20: 0.5, 40: 0.4, 60: 0.6}


class Killed(BaseException):
    """In place of kill -9."""


class Machine:
    """Kills the process at one of the moments that it comes to."""

    def __init__(self):
        self.moments, self.kill_at, self.dead = 0, None, False

    def moment(self):
        self.moments += 1
        if self.moments - 1 == self.kill_at:
            self.dead = True
            raise Killed

    def restarted(self):
        self.kill_at, self.dead = None, False

    def around(self, function):
        def call(*args, **kwargs):
            self.moment()
            result = function(*args, **kwargs)
            self.moment()
            return result

        return call


class FakeEvaluator:
    _names = itertools.count(1000)

    def __init__(self, machine):
        self._machine = machine

    def evaluate(self, checkpoint):
        self._machine.moment()
        step = int(tf.train.load_variable(checkpoint, 'global_step'))
        return {'loss': LOSSES[step], 'global_step': step}

    def metric_names(self):
        return {'loss', 'accuracy'}

    def export_saved_model(self, folder, serving_input_fn, checkpoint_path, **unused):
        name = next(self._names)
        os.makedirs(os.path.join(folder, f'temp-{name}'))
        self._machine.moment()
        path = os.path.join(folder, str(name))
        with open(os.path.join(folder, f'temp-{name}', 'of'), 'w') as file:
            file.write(os.path.basename(checkpoint_path))
        os.rename(os.path.join(folder, f'temp-{name}'), path)
        self._machine.moment()
        return path.encode()


class Run:
    """A model_dir whose checkpoints are evaluated by one process after the other."""

    def __init__(self, folder, machine, metric='loss'):
        self.folder, self.machine, self.metric = folder, machine, metric

    def save(self, step):
        with tf.Graph().as_default(), v1.Session() as session:
            global_step = v1.train.get_or_create_global_step()
            v1.get_variable('weight', [3], initializer=v1.random_normal_initializer())
            session.run(v1.global_variables_initializer())
            session.run(global_step.assign(step))
            return v1.train.Saver(max_to_keep=10).save(session, str(self.folder / 'model.ckpt'), step)

    def process(self, data=''):
        model_dir = str(self.folder)
        job = types.SimpleNamespace(best_metric=self.metric, best_mode='min')
        return evaluation.Evaluation(
            model_dir,
            lambda: FakeEvaluator(self.machine),
            exporters.Exports(model_dir, exporters.make(('best', 'final'), job, lambda: None, data)),
            early_stopping.EarlyStopping('loss', 'min', patience=1),
            data=data,
        )

    def evaluates(self, *checkpoints, data=''):
        process = self.process(data)
        process.make_up()
        for checkpoint, final in checkpoints:
            process.evaluate_checkpoint(checkpoint, final)

    def left(self):
        """Everything that evaluations leave, without names that go by the time."""
        lines = metrics_log.MetricsLog(str(self.folder / 'eval/metrics.jsonl')).read()
        exports = {}
        for name in ('best', 'final'):
            folder = self.folder / 'export' / name
            found = sorted(folder.iterdir()) if folder.exists() else []
            exports[name] = [(path / 'of').read_text() for path in found if path.name.isdigit()]
            exports[f'{name} others'] = [path.name for path in found if not path.name.isdigit()]
        best = protocol.read_json(str(self.folder / 'export/best/best.json'))
        last = evaluation_journal.read(str(self.folder))
        return dict(
            lines=[(line['step'], line['loss']) for line in lines],
            best_json=(best.get('step'), best.get('value')),
            stop=protocol.read_json(str(self.folder / 'eval/stop.json')),
            eval=sorted(path.name for path in (self.folder / 'eval').iterdir()),
            last=last and (last.step, last.final, last.done),
            **exports,
        )

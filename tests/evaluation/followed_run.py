"""A run that an evaluator follows, of checkpoints that a test saves and deletes."""

import os

import tensorflow as tf

from estimator_trainer.evaluation import estimator_evaluator, evaluation
from estimator_trainer.evaluation.continuous_evaluation import ContinuousEvaluation
from estimator_trainer.lifecycle import training_watch
from estimator_trainer.run_dir import metrics_log

v1 = tf.compat.v1


def save(model_dir, step):
    with tf.Graph().as_default(), v1.Session() as session:
        global_step = v1.train.get_or_create_global_step()
        v1.get_variable('weight', [100], initializer=v1.ones_initializer())
        session.run(v1.global_variables_initializer())
        session.run(global_step.assign(step))
        v1.train.Saver().save(session, os.path.join(model_dir, 'model.ckpt'), step)


def delete(model_dir, step):
    for name in os.listdir(model_dir):
        if name.startswith(f'model.ckpt-{step}.'):
            os.unlink(os.path.join(model_dir, name))


def cut_short(model_dir, step):
    with open(os.path.join(model_dir, f'model.ckpt-{step}.data-00000-of-00001'), 'r+b') as file:
        file.truncate(40)


class FakeEvaluator:
    """Reads the checkpoint, as an Estimator does."""

    def __init__(self, model_dir, input_fn):
        self.model_dir, self._input_fn = model_dir, input_fn

    def evaluate(self, checkpoint):
        self._input_fn()
        tf.train.load_variable(checkpoint, 'weight')
        return {'loss': 1.0, 'global_step': int(tf.train.load_variable(checkpoint, 'global_step'))}


def model_fn(features, labels, mode):
    del labels
    v1.get_variable('weight', [100])
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features))


def input_fn():
    return tf.data.Dataset.from_tensors(([1.0], [1.0]))


def real_estimator(model_dir, input_fn, same_data=False):
    return estimator_evaluator.EstimatorEvaluator(
        tf.estimator.Estimator(model_fn, model_dir), input_fn, same_data=same_data
    )


class Exports:
    """Notes (step, step of the checkpoint, final), in place of exporters.Exports."""

    def __init__(self):
        self.told = []

    def finals(self):
        return ()

    def remove_unfinished(self):
        pass

    def write(self, evaluator, checkpoint, metrics, final, finals_before):
        self.told.append((metrics['global_step'], int(checkpoint.split('-')[-1]), final))


class Run:
    """looks: what happens each time the evaluator looks: (state, what is done before to the model_dir)."""

    def __init__(self, model_dir, *looks, make=FakeEvaluator, input_fn=input_fn):
        self.model_dir, self.looks, self.round = str(model_dir), list(looks), 0
        self.exports, self.checkpoint_step = Exports(), None
        self.evaluation = ContinuousEvaluation(
            self.model_dir,
            evaluation.Evaluation(self.model_dir, lambda: make(self.model_dir, input_fn), self.exports),
            self,
            self.count,
        )

    @property
    def evaluated(self):
        """The steps of the lines of eval/metrics.jsonl."""
        return [line['step'] for line in metrics_log.MetricsLog(f'{self.model_dir}/eval/metrics.jsonl').read()]

    def count(self):
        self.round += 1

    def look(self):
        state, *done = self.looks.pop(0)
        for function, step in done:
            function(self.model_dir, step)
        return training_watch.News(state, 31.0, self.checkpoint_step)

    def run(self):
        self.evaluation.run()
        assert not self.looks
        return self

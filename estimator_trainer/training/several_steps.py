"""Several training steps of an Estimator in one session.run: --steps_per_call.

What happens at which step stays the same: a call ends at each step after which something is due.
"""

import functools
import json
import logging

import tensorflow as tf

from estimator_trainer.compat import agreement
from estimator_trainer.compat.patches import estimators, saver_hooks, sync_training
from estimator_trainer.sync import barriers
from estimator_trainer.training import call_lengths, progress, step_loop, transfers, waits, watched_step
from estimator_trainer.training.end_of_call import EndOfCall

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
_MOST_IN_STEP = 10  # of several workers, whose calls end together: ten slow steps have to fit into the grace period
_OWN_HOOKS = (watched_step.WatchedStepHook, progress.ProgressHook, v1.train.StopAtStepHook, v1.train.NanTensorHook)


def install(estimator, setup) -> None:
    """From here on `estimator` trains with --steps_per_call."""
    estimators.replace_training(estimator, functools.partial(_train, setup))


def _train(setup, original, estimator, spec, worker_hooks, hooks, global_step, saving_listeners):
    """In place of Estimator._train_with_estimator_spec."""
    hooks_of_job = [*worker_hooks, *hooks, *spec.training_hooks, *spec.training_chief_hooks]
    wait = waits.for_input_of_step(spec.loss.graph) if setup.plan.is_chief else None
    calls, why = None, _why_single(setup.plan, hooks_of_job, spec.loss)
    if why is None:
        try:
            calls = _Calls(setup, spec, wait)
        except step_loop.CannotLoop as error:
            why = str(error)
    if setup.plan.in_sync:
        why = _of_all(setup.plan, why)
    if why is not None:
        if why and setup.plan.is_chief:
            _log.info('one step a call: %s', why)
        if setup.plan.uses_parameter_servers:
            transfers.bundle([spec.train_op, spec.loss])
        waits.now_of_call(wait)
        return original(spec, worker_hooks, hooks, global_step, saving_listeners)
    estimators.replace_config(estimator, save_summary_steps=0)  # _SummariesOfCalls does it
    calls.take_over()
    return original(calls.spec, worker_hooks, [*calls.hooks(estimator), *hooks], global_step, saving_listeners)


def _of_all(plan, why) -> str | None:
    """What any of the synchronous tasks has against calls of several steps: all of them take the same calls. A job may
    have hooks on the chief alone."""
    barriers.tell(f'one_step_a_call/{plan.training_index}', json.dumps(why))
    barriers.wait_for_all('one_step_a_call', plan.config.step_timeout_secs or barriers.UNBOUNDED_SECS)
    reasons = [json.loads(barriers.told(f'one_step_a_call/{index}')) for index in range(plan.num_training_tasks)]
    return next((reason for reason in reasons if reason is not None), None)


def _why_single(plan, hooks, loss) -> str | None:
    """Why each call takes one step, '' if it was asked for; None: it may take several."""
    if plan.config.steps_per_call == '1':
        return ''
    if plan.uses_parameter_servers:
        return 'the variables are on parameter servers'
    if plan.is_multi_worker and agreement.in_step() is None:
        return 'the loss is not added up over the workers'
    if loss.dtype not in (tf.float32, tf.float64):
        return f'the loss is of type {loss.dtype.name}'
    for hook in hooks:
        if not isinstance(hook, _OWN_HOOKS) and _looks_at_steps(hook):
            return f"the job's {type(hook).__name__} looks at every step"
    return None


def _looks_at_steps(hook) -> bool:
    own = v1.train.SessionRunHook
    return type(hook).before_run is not own.before_run or type(hook).after_run is not own.after_run


class _Calls(v1.train.SessionRunHook):
    """Feeds each call the number of its steps.

    Args:
        setup: trainer.Setup.
        spec: EstimatorSpec of one step.
        wait: of `waits.for_input_of_step`.

    Attributes:
        spec: that of a call.
        step: the global step after the last call.
        planned, done: steps of the call: it was to take, it has taken.
    """

    def __init__(self, setup, spec, wait):
        self._plan, self._end, self._config = setup.plan, setup.params.max_steps, setup.plan.config
        self._watch = setup.watch
        self._alone = agreement.in_step() is None
        self._clock = EndOfCall(spec.loss) if self._alone else None
        self._summaries = self._config.save_summary_steps or None
        wishes = [] if self._alone else [agreement.in_step()]
        self._loop = loop = step_loop.make(
            spec.train_op,
            spec.loss,
            self._clock.reached if self._alone else None,
            _merged_summaries(spec) if self._summaries else None,
            wishes,
            wait,
        )
        self.spec = spec._replace(train_op=loop.done.op, loss=loop.loss)
        self._in_call = loop.last[wishes[0].ref()] if wishes else None

    def take_over(self) -> None:
        """From here on the hooks, the reports and the agreement of this graph are about calls, not steps."""
        v1.add_to_collection(sync_training.LOSSES_OF_CALL, self._loop.losses)
        waits.now_of_call(self._loop.also)
        if self._in_call is not None:
            agreement.now_in_step(self._in_call)
        if self._loop.summary is not None:
            estimators.replace_summary(self.spec.scaffold, self._loop.summary)

    def hooks(self, estimator) -> list:
        """This one first: the others ask it."""
        folder, scaffold, config = estimator.model_dir, self.spec.scaffold, estimator.config
        hooks = [self]
        if self._alone:
            save = {'save_secs': config.save_checkpoints_secs, 'save_steps': config.save_checkpoints_steps}
            hooks.append(_CheckpointsOfCalls(self, folder, **save, scaffold=scaffold))
        if self._summaries:
            writer = None if self._plan.is_chief else sync_training.NoWriter()
            where = {'output_dir': folder} if self._plan.is_chief else {'summary_writer': writer}
            hooks.append(_SummariesOfCalls(self, self._summaries, **where, scaffold=scaffold))
        return hooks

    def begin(self):
        self._global_step = v1.train.get_global_step()
        self._voice = agreement.join(self._tell, 1)

    def after_create_session(self, session, coord):
        self.step = first = int(session.run(self._global_step))
        config, longest = self._config, call_lengths.MOST_STEPS if self._alone else _MOST_IN_STEP
        dues = [(first, config.log_every_steps)]
        if config.save_checkpoints_steps:
            dues.append((first, config.save_checkpoints_steps))
        if self._summaries:
            dues.append((first + 1, self._summaries))
        self._lengths = call_lengths.CallLengths(config.most_steps_per_call, self._end, dues, longest)
        self.planned, self._next, self._left = 1, 1, 0
        if self._clock:
            self._clock.start(session)

    def before_run(self, run_context):
        self.planned = self._left or self._next
        if self._alone:
            self.planned = self._to_border(self.step, self.planned)
        self._lengths.begin()
        if self._clock:
            self._clock.begin()
        fetches, feeds = self._voice.before_run()
        return v1.train.SessionRunArgs([self._loop.done, fetches], {self._loop.most: self.planned, **(feeds or {})})

    def _tell(self) -> list:
        """What all tasks do in the next call, if this one takes all its steps. The chief says it."""
        next_ = self.step + self.planned
        return [self._to_border(next_, self._lengths.of_call_after(next_)) if self._plan.is_chief else 0]

    def _to_border(self, step, length) -> int:
        """The length of a call that begins after `step` and may have to end earlier, for a profile."""
        border = self._watch.border_of_profile(step, alone=True)
        return length if border is None else min(length, border - step)

    def after_run(self, run_context, run_values):
        done, fetched = run_values.results
        self.done = int(done)
        self.step += self.done
        self._left = self.planned - self.done
        self._lengths.took(self.done)
        self._voice.after_run(fetched)
        if self._clock:
            self._clock.ended(run_context.session, early=self._left > 0)
            self._next, self._left = self._lengths.of_call_after(self.step), 0
        else:
            self._next = max(1, self._voice.numbers()[0])
        if self.step >= self._end:
            run_context.request_stop()

    def end(self, session):
        if self._clock:
            self._clock.stop()


class _CheckpointsOfCalls(saver_hooks.CheckpointSaver):
    """Upstream's asks after a call how many steps there were: it would have to ask the session."""

    def __init__(self, calls, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._calls = calls

    def after_run(self, run_context, run_values):
        self.save_if_due(run_context, self._calls.step)


class _SummariesOfCalls(saver_hooks.SummarySaver):
    """Upstream's, with calls of several steps."""

    def __init__(self, calls, steps, **kwargs):
        super().__init__(save_steps=steps, **kwargs)
        self._calls = calls

    def before_run(self, run_context):
        self.expect(self._calls.step + self._calls.planned)
        return super().before_run(run_context)

    def after_run(self, run_context, run_values):
        if self._calls.done == self._calls.planned:  # a call that has ended early took other steps
            super().after_run(run_context, run_values)


def _merged_summaries(spec):
    """As Estimator and Scaffold make it, a little later."""
    collected = v1.get_collection(v1.GraphKeys.SUMMARIES)
    if not any(summary.op.name == 'loss' for summary in collected):
        v1.summary.scalar('loss', spec.loss)
    own = spec.scaffold.summary_op
    if own is not None:
        return v1.summary.merge(own) if isinstance(own, list | tuple) else own
    of_graph = v1.get_collection(v1.GraphKeys.SUMMARY_OP)
    return of_graph[0] if of_graph else v1.summary.merge_all()

"""Several training steps of an Estimator in one session.run: --steps_per_call.

What happens at which step stays the same: a call ends at each step after which something is due, and after one that
has not moved the global step by 1. From then on each call takes one step.
"""

import logging
import threading
import time

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from estimator_trainer.compat import agreement, lacks
from estimator_trainer.compat.patches import estimators, saver_hooks
from estimator_trainer.training import call_lengths, step_loop
from estimator_trainer.training.call_lengths import LONGEST_CALL_SECS
from estimator_trainer.training.dues import every

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
_MOST_IN_STEP = 10  # of several workers, whose calls end together: ten slow steps have to fit into the grace period


def make(setup, spec, hooks, wait, step_after) -> tuple:
    """-> (Calls, None), or (None, why each call takes one step), where the text is empty if that was asked for.

    Args:
        setup: trainer.Setup.
        spec: EstimatorSpec of one step.
        hooks: all that the job has made. Those of Estimator and of the trainer are not among them.
        wait: of `waits.for_input_of_step`.
        step_after: of `sync_training.step_after`, for one step.
    """
    why = _why_single(setup.plan, hooks, spec.loss)
    if why is None:
        try:
            with lacks.told_as(step_loop.CannotLoop):
                return Calls(setup, spec, wait, step_after, _between_calls(hooks, spec.scaffold)), None
        except step_loop.CannotLoop as error:
            why = str(error)
    return None, why


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
        if _has_own(hook, 'before_run', 'after_run'):
            return f"the job's {type(hook).__name__} looks at every step"
    return None


def may_read_batches(hooks, scaffold) -> bool:
    """Whether anything of the job is given the session, and may read batches outside the steps."""
    return _between_calls(hooks, scaffold) is not None or any(
        _has_own(hook, 'before_run', 'after_run') for hook in hooks
    )


def _between_calls(hooks, scaffold) -> str | None:
    """What of the job is given the session between two calls, and may run operations of the step itself; or None."""
    if scaffold is not None and scaffold.init_fn is not None:
        return "the job's init_fn"
    of_job = (hook for hook in hooks if _has_own(hook, 'after_create_session', 'end'))
    return next((f"the job's {type(hook).__name__}" for hook in of_job), None)


def _has_own(hook, *methods: str) -> bool:
    """Whether a hook has any of these methods of its own, in its class or in itself."""
    none = v1.train.SessionRunHook
    return any(
        getattr(type(hook), method, None) is not getattr(none, method) or method in getattr(hook, '__dict__', {})
        for method in methods
    )


class Calls:
    """Says how many steps each call takes. `estimator.LoopHook` asks.

    Args:
        between: what of the job may run operations of the step between two calls, or None.

    Raises:
        CannotLoop: the step cannot be the body of a loop.

    Attributes:
        losses: tensor with the loss of each step of a call.
        dues: as of Loop.begin.
        planned, done: steps of the call: it was to take, it has taken.
    """

    def __init__(self, setup, spec, wait, step_after, between):
        self._plan, self._loop, config = setup.plan, setup.loop, setup.plan.config
        alone = agreement.in_step() is None
        self._clock = EndOfCall(spec.loss) if alone else None
        self._summaries = config.save_summary_steps or None
        wishes = [] if alone else [agreement.in_step()]
        self._steps = step_loop.make(
            spec.train_op,
            spec.loss,
            self._clock.reached if alone else None,
            _merged_summaries(spec) if self._summaries else None,
            wishes,
            wait,
            step_after,
        )
        if between and self._steps.draws:
            raise step_loop.CannotLoop(f'{between} may run a part of the step, and the step draws random numbers')
        self._spec = spec._replace(train_op=self._steps.done.op, loss=self._steps.loss)
        self._in_call = self._steps.last[wishes[0].ref()] if wishes else None
        self.losses, self.dues = self._steps.losses, [self._next_summary]
        longest = call_lengths.MOST_STEPS if alone else _MOST_IN_STEP
        self._lengths = call_lengths.CallLengths(config.most_steps_per_call, self._next_due, longest)

    def take_over(self, estimator) -> tuple:
        """From here on the summaries and the agreement of this graph are about calls, not steps.

        Returns:
            (EstimatorSpec of a call, the waits of its steps for their batches, hooks that write summaries)
        """
        if self._in_call is not None:
            agreement.now_in_step(self._in_call)
        session_config = estimator.config.session_config
        if self._steps.has_ordered_calls:
            session_config = _without_calls_taken_apart(session_config)
        estimators.replace_config(estimator, save_summary_steps=0, session_config=session_config)
        hooks = []
        if self._summaries:
            estimators.replace_summary(self._spec.scaffold, self._steps.summary)
            where = saver_hooks.summaries_of_all(estimator.model_dir, self._plan.is_chief)
            hooks = [
                _SummariesOfCalls(self, self._steps.summarises, self._summaries, scaffold=self._spec.scaffold, **where)
            ]
        return self._spec, self._steps.also, hooks

    @property
    def step(self) -> int:
        """The last one."""
        return self._loop.step

    def start(self, session) -> None:
        """Training begins."""
        self._session, self._first = session, self.step
        self.planned, self._next, self._left = 1, 1, 0
        self._one_step = False  # a step has moved the global step by another number than 1
        if self._clock:
            self._clock.start(session)

    def begin(self) -> dict:
        """A call begins. What it is fed."""
        self.planned = self._left or self._next
        if self._clock:
            self.planned = min(self.planned, self._next_due(self.step) - self.step)  # a profile may have been asked for
            self._clock.begin()
        self._lengths.begin()
        return {self._steps.most: self.planned, self._steps.first: self.step}

    def next_length(self) -> int:
        """What all tasks do in the next call, if this one takes all its steps. The chief says it."""
        if not self._plan.is_chief:
            return 0
        return 1 if self._one_step else self._lengths.of_call_after(self.step + self.planned)

    def took(self, steps: int, step: int) -> None:
        """The call has ended. `step` is the global step now."""
        self.done, self._left = steps, self.planned - steps
        self._lengths.took(steps)
        if step != self.step + steps and not self._one_step:
            self._one_step = True
            if self._plan.is_chief:
                moved = step - self.step - steps + 1
                _log.info('one step a call: the train_op has moved the global step by %d, and not by 1', moved)
        if self._clock:
            self._clock.ended(self._session, early=self._left > 0)

    def plan_next(self, participant) -> None:
        """What was due after the call is done. The last number of `participant` is `next_length`."""
        if self._one_step:  # in all tasks at once: they move the global step alike
            self._next, self._left = 1, 0
        elif self._clock:
            self._next, self._left = self._lengths.of_call_after(self.step), 0
        else:
            self._next = max(1, participant.numbers()[-1])

    def stop(self) -> None:
        """Training is over."""
        if self._clock:
            self._clock.stop()

    def _next_due(self, step: int) -> int:
        return self._loop.next_due(step, alone=True)  # in several tasks the chief asks, and tells the others

    def _next_summary(self, step: int) -> int | None:
        return every(self._first + 1, self._summaries)(step)  # upstream's hook writes those of the first step


class EndOfCall:
    """Ends a call of this process after the step in which it has taken too long: steps may become slower at any time,
    and a signal is obeyed after the call.

    A thread sets a variable, at which the loop looks after each step.

    Args:
        loss: of a step.

    Attributes:
        reached: a tensor of the step.
    """

    def __init__(self, loss):
        with tf.device('/cpu:0'):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name='end_of_call')
            self._set = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(True))
            self._clear = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(False))
        with tf.device('/cpu:0'), tf.control_dependencies([loss]):
            self.reached = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.bool)
        self._began = None
        self._over = threading.Event()

    def start(self, session) -> None:
        session.run(self._clear)
        threading.Thread(target=self._watch, args=(session,), name='end_of_call', daemon=True).start()

    def _watch(self, session) -> None:
        told = None
        while not self._over.wait(LONGEST_CALL_SECS / 2):
            began = self._began
            if began is None or began == told or time.monotonic() - began < LONGEST_CALL_SECS:
                continue
            try:
                session.run(self._set)
            except (tf.errors.OpError, RuntimeError):  # the session is closed
                return
            told = began

    def begin(self) -> None:
        """A call begins."""
        self._began = time.monotonic()

    def ended(self, session, early: bool) -> None:
        self._began = None
        if early:
            session.run(self._clear)

    def stop(self) -> None:
        self._over.set()


class _SummariesOfCalls(saver_hooks.SummarySaver):
    """Upstream's, with calls of several steps."""

    def __init__(self, calls, summarises, steps, **kwargs):
        super().__init__(lambda: calls.step + calls.planned, save_steps=steps, **kwargs)
        self._calls, self._summarises = calls, summarises

    def before_run(self, run_context):
        asked = super().before_run(run_context)
        return asked._replace(feed_dict={self._summarises: 'summary' in asked.fetches})

    def after_run(self, run_context, run_values):
        if self._calls.done == self._calls.planned:  # a call that has ended early took other steps
            super().after_run(run_context, run_values)


def _without_calls_taken_apart(session_config):
    """As `StepLoop.has_ordered_calls` asks for."""
    config = v1.ConfigProto()
    config.CopyFrom(session_config or config)
    config.graph_options.rewrite_options.function_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return config


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

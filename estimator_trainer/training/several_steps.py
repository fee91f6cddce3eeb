"""Several training steps of an Estimator in one session.run: --steps_per_call.

Here it is decided whether calls may take several steps, and their graph is made. `session_hook.Calls` says how many
each takes.
"""

import logging
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from estimator_trainer.compat import agreement, lacks
from estimator_trainer.compat.patches import estimators, saver_hooks
from estimator_trainer.jobs.job_types import Estimator, EstimatorSpec
from estimator_trainer.training import runtime, step_loop, step_order
from estimator_trainer.training.call_timer import CallTimer
from estimator_trainer.training.plan import Plan
from estimator_trainer.training.session_hook import Calls
from estimator_trainer.training.trainer import Setup

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1


def make(
    setup: Setup,
    config: tf.estimator.RunConfig,
    spec: EstimatorSpec,
    hooks: Iterable[tf.compat.v1.train.SessionRunHook],
    wait: tf.Tensor | None,
    step_after: tf.Tensor,
) -> 'tuple[SeveralSteps | None, str | None]':
    """-> (SeveralSteps, None), or (None, why each call takes one step), where the text is empty if that was asked for.

    Args:
        config: of the Estimator. A make_estimator may have changed the trainer's.
        spec: of one step.
        hooks: all that the job has made. Those of Estimator and of the trainer are not among them.
        wait: of `step_graph.measured_wait`.
        step_after: of `sync_training.step_after`, for one step.
    """
    why = _why_single(setup.plan, hooks, spec.loss)
    matters = (why is None or setup.plan.config.deterministic) and not setup.plan.uses_parameter_servers
    by_chance = _left_to_chance(setup.plan, spec) if matters else []
    if why is None and by_chance:
        why = (
            f'the step uses {by_chance[0]} beside an operation that changes it, and neither waits for the other: '
            'calls of several steps would run them in another order'
        )
    if why is None:
        try:
            with lacks.told_as(step_loop.CannotLoop):
                between = _between_calls(hooks, spec.scaffold)
                return SeveralSteps(setup, config, spec, wait, step_after, between), None
        except step_loop.CannotLoop as error:
            why = str(error)
    return None, why


def _left_to_chance(plan: Plan, spec: EstimatorSpec) -> list[str]:
    """`step_order.left_to_chance` of the step; with --deterministic the user should know."""
    train_op = spec.train_op if isinstance(spec.train_op, tf.Operation) else spec.train_op.op
    names: list[str] = []
    with lacks.or_without():
        names = step_order.left_to_chance([train_op, spec.loss.op])
    if names and plan.config.deterministic and plan.is_chief:
        _log.warning(
            'WARNING: --deterministic: the step uses %s beside an operation that changes it. Two runs may differ, as '
            'neither waits for the other; let one of them wait, by tf.control_dependencies',
            ', '.join(names[:3]),
        )
    return names


def _why_single(plan: Plan, hooks: Iterable[tf.compat.v1.train.SessionRunHook], loss: tf.Tensor) -> str | None:
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


def may_read_batches(
    hooks: Iterable[tf.compat.v1.train.SessionRunHook], scaffold: tf.compat.v1.train.Scaffold | None
) -> bool:
    """Whether anything of the job is given the session, and may read batches outside the steps."""
    return _between_calls(hooks, scaffold) is not None or any(
        _has_own(hook, 'before_run', 'after_run') for hook in hooks
    )


def _between_calls(
    hooks: Iterable[tf.compat.v1.train.SessionRunHook], scaffold: tf.compat.v1.train.Scaffold | None
) -> str | None:
    """What of the job is given the session between two calls, and may run operations of the step itself; or None."""
    if scaffold is not None and scaffold.init_fn is not None:
        return "the job's init_fn"
    of_job = (hook for hook in hooks if _has_own(hook, 'after_create_session', 'end'))
    return next((f"the job's {type(hook).__name__}" for hook in of_job), None)


def _has_own(hook: tf.compat.v1.train.SessionRunHook, *methods: str) -> bool:
    """Whether a hook has any of these methods of its own, in its class or in itself."""
    none = v1.train.SessionRunHook
    return any(
        getattr(type(hook), method, None) is not getattr(none, method) or method in getattr(hook, '__dict__', {})
        for method in methods
    )


class SeveralSteps:
    """The graph of calls that take several steps.

    Args:
        between: what of the job may run operations of the step between two calls, or None.

    Raises:
        CannotLoop: the step cannot be the body of a loop.

    Attributes:
        calls: session_hook.Calls.
    """

    def __init__(
        self,
        setup: Setup,
        config: tf.estimator.RunConfig,
        spec: EstimatorSpec,
        wait: tf.Tensor | None,
        step_after: tf.Tensor,
        between: str | None,
    ):
        in_step = agreement.in_step()  # None: this task trains alone
        timer = CallTimer(spec.loss) if in_step is None else None
        self._plan, self._summary_steps = setup.plan, config.save_summary_steps or None
        self._steps = step_loop.make(
            spec.train_op,
            spec.loss,
            timer and timer.reached,
            _merged_summaries(spec) if self._summary_steps else None,
            [] if in_step is None else [in_step],
            wait,
            step_after,
        )
        if self._steps.drawn_in_call:
            raise step_loop.CannotLoop(f'{self._steps.drawn_in_call} draws random numbers in a function')
        if between and self._steps.draws:
            raise step_loop.CannotLoop(f'{between} may run a part of the step, and the step draws random numbers')
        self._spec = spec._replace(train_op=self._steps.done.op, loss=self._steps.loss)
        self._in_call = None if in_step is None else self._steps.last[in_step.ref()]
        self.calls = Calls(setup, self._steps, timer, self._summary_steps)

    def take_over(
        self, estimator: Estimator
    ) -> tuple[EstimatorSpec, tf.Tensor | None, list[tf.compat.v1.train.SessionRunHook]]:
        """Makes the summaries and the agreement of this graph those of calls, not of steps.

        Returns:
            (EstimatorSpec of a call, the waits of its steps for their batches, hooks that write summaries)
        """
        if self._in_call is not None:
            agreement.now_in_step(self._in_call)
        counted = estimator.config.log_step_count_steps
        estimators.replace_config(estimator, save_summary_steps=0, log_step_count_steps=None)
        if self._steps.has_ordered_calls:
            keep_calls_together(estimator)
        plan = self._plan
        is_one_device = runtime.trains_alone_on_cpus(plan) and plan.num_replicas == 1
        if self._steps.is_short and is_one_device and not plan.config.inter_op_threads:
            estimators.change_session(estimator, _on_the_calling_thread)
        hooks: list[tf.compat.v1.train.SessionRunHook] = []
        if counted and plan.is_chief:  # Estimator's LoggingTensorHook would count calls
            hooks.append(v1.train.StepCounterHook(every_n_steps=counted, output_dir=estimator.model_dir))
        if self._summary_steps:
            collects = self._spec.scaffold.summary_op is None
            estimators.replace_summary(self._spec.scaffold, self._steps.summary)
            hooks.append(
                _SummariesOfCalls(
                    self.calls,
                    self._steps,
                    self._summary_steps,
                    collects and plan.is_chief,
                    scaffold=self._spec.scaffold,
                    **saver_hooks.summaries_of_all(estimator.model_dir, plan.is_chief),
                )
            )
        return self._spec, self._steps.also, hooks


class _SummariesOfCalls(saver_hooks.SummarySaver):
    """Upstream's, with calls of several steps."""

    def __init__(self, calls: Calls, steps: step_loop.StepLoop, every: int, warns: bool, **kwargs: Any):
        super().__init__(lambda: calls.step + calls.planned, save_steps=every, **kwargs)
        self._calls, self._steps = calls, steps
        self._collected = v1.get_collection(v1.GraphKeys.SUMMARIES) if warns else None

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        if self._collected is None:
            return
        added = session.graph.get_collection(v1.GraphKeys.SUMMARIES)[len(self._collected) :]
        late = [summary.op.name for summary in added if not any(it is self._steps.loss for it in summary.op.inputs)]
        if late:
            _log.warning(
                'WARNING: the summary %s is not written: a hook has made it in begin(), when calls of several '
                'steps were built. Make it in the model_fn, or set --steps_per_call=1',
                ', '.join(late[:3]),
            )

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
        asked = super().before_run(run_context)
        return asked._replace(feed_dict={self._steps.summarises: 'summary' in asked.fetches})

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        if self._calls.done == self._calls.planned:  # a call that has ended early took other steps
            super().after_run(run_context, run_values)


def keep_calls_together(estimator: Estimator) -> None:
    """Lets its session do what `StepLoop.has_ordered_calls` asks for."""

    def change(config: tf.compat.v1.ConfigProto) -> None:
        config.graph_options.rewrite_options.function_optimization = rewriter_config_pb2.RewriterConfig.OFF

    estimators.change_session(estimator, change)


def _on_the_calling_thread(config: tf.compat.v1.ConfigProto) -> None:
    """The operations of a call run one after the other. To wake other threads for them costs short steps a third."""
    config.inter_op_parallelism_threads = -1


def _merged_summaries(spec: EstimatorSpec) -> tf.Tensor:
    """As Estimator and Scaffold make it, a little later. The loss is not collected here: where each call takes one step
    after all, Estimator's own is the only one."""
    collected = v1.get_collection(v1.GraphKeys.SUMMARIES)
    if not any(summary.op.name == 'loss' for summary in collected):
        tag = v1.get_default_graph().unique_name('loss', mark_as_used=False)
        collected = [*collected, tf.raw_ops.ScalarSummary(tags=tag, values=spec.loss)]
    own = spec.scaffold.summary_op
    if own is not None:
        return v1.summary.merge(own) if isinstance(own, list | tuple) else own
    of_graph = v1.get_collection(v1.GraphKeys.SUMMARY_OP)
    return of_graph[0] if of_graph else v1.summary.merge(collected)

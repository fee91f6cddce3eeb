"""The life of a task, from the moment that TensorFlow is there until its part of the run is done."""

import logging
import math
import os
import time
from collections.abc import Callable, Mapping

import tensorflow as tf

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.data import evaluation_data, preparing
from estimator_trainer.evaluation import continuous_evaluation, early_stopping, exporters, serving_inputs, wrong_answers
from estimator_trainer.evaluation.evaluation import Evaluation
from estimator_trainer.jobs import job_data, loading, micro_batches
from estimator_trainer.lifecycle import ending, peers
from estimator_trainer.lifecycle.watchdog import Watchdog
from estimator_trainer.monitoring.profiles import profiler as profilers
from estimator_trainer.monitoring.profiles import schedule
from estimator_trainer.run_dir import checkpoints, config_file, foreign_checkpoints, machine, protocol, training_file
from estimator_trainer.training import (
    agreed_start,
    coordination,
    messages,
    parameter_server,
    params_of_run,
    reports,
    runtime,
)
from estimator_trainer.training import loop as loops
from estimator_trainer.training.first_batches import FirstBatches
from estimator_trainer.training.plan import Plan
from estimator_trainer.training.trainer import Setup, Trainer, input_fn_of, make_evaluator, make_trainer

_log = logging.getLogger('estimator_trainer')
_TRAINED_SECS = 600  # between the first and the last worker that has done its last step
_PROFILED_SECS, _STOPPED_SECS = 20, 2  # for the last profile; where the grace period runs
_EVALUATED_SECS = 6 * 3600  # the chief's evaluation and export after it


def run_task(plan: Plan, watchdog: Watchdog, versions: Mapping[str, str]) -> ending.End | None:
    """Does this task's part of a run: trains, evaluates or serves.

    Args:
        plan: with its job.
        watchdog: ends the process where a wait takes too long.
        versions: of what computes, for config.json.

    Returns:
        None when the part is done; an End when the task was stopped on the way.
    """
    config, model_dir, job = plan.config, plan.config.model_dir, plan.job
    assert job is not None
    rule = plan.stop_rule
    if not plan.trains:
        watchdog.when_asked_to_profile(messages.say_nothing_to_profile)

    # 1. Refuse a model_dir that holds another run. It was looked at before, but another trainer may have had it.
    initial_replicas = config_file.initial_replicas(plan, os.environ)
    resolved = config_file.resolved(plan, versions, initial_replicas, os.environ)
    resolved |= {'machine': machine.facts(), 'job_file': loading.file_of(config.job)}
    config_file.refuse_another_run(model_dir, resolved, plan.added_params)
    if plan.is_chief:  # before anything can fail: the file tells how the run ended
        watchdog.write_training_file(model_dir, None)

    # 2. Choose the devices. A parameter server needs no more: it serves until all workers have left.
    runtime.set_devices(plan)
    if plan.role == 'ps':
        run_config = runtime.make_run_configs(plan, watchdog).own
        watchdog.watch_peers(_peer_watch(plan))
        parameter_server.serve(run_config, plan.num_training_tasks, watchdog)
        return _stopped(watchdog, None)

    # 3. Find the data. They may say how long the run trains.
    with preparing.told_to(watchdog.heard_prepared):  # may take hours: that it goes on is no stall
        dataset = job_data.load(job, plan.job_params, config)
    watchdog.heard_prepared(None)
    contents = dataset.contents if dataset else None
    params = params_of_run.make(plan, dataset, initial_replicas)

    # 4. Watch the other tasks, and open the port.
    if plan.is_chief:  # before the port opens: a chief that answers and has no training.json has another model_dir
        watchdog.write_training_file(model_dir, params.max_steps)
    watchdog.watch_peers(_peer_watch(plan))
    run_configs = runtime.make_run_configs(plan, watchdog)

    # 5. Look at the checkpoints, and agree with the other tasks on the step to start from.
    if plan.is_chief:  # may take minutes: the others see by the open port that it lives
        foreign_checkpoints.take_in(model_dir)
        checkpoints.set_aside_damaged(model_dir)
        checkpoints.remove_unfinished(model_dir)
        messages.say_other_tensorflow(model_dir, versions.get('tensorflow'))
        messages.say_changed_files(config_file.files(model_dir), contents)
        resolved |= {'files': contents} if contents else {}
        resolved |= config_file.history(model_dir, plan.global_batch_size, checkpoints.last_step(model_dir))
        config_file.write(model_dir, resolved)
        if config.job_is_file:
            config_file.keep_job(model_dir, config.job)
        if plan.in_sync:
            agreed_start.announce(plan, contents)
    if plan.trains:
        start_step = agreed_start.agree(plan, contents) if plan.in_sync else checkpoints.last_step(model_dir)
        expected, params = params.max_steps, params_of_run.started_at(params, plan, start_step)
        if plan.is_chief and params.max_steps != expected:  # it goes on from an older checkpoint than the newest
            watchdog.write_training_file(model_dir, params.max_steps)
    memory = coordination.connect_memory(plan) if plan.in_sync else None
    if plan.is_chief:
        watchdog.resumes_at(params.start_step)
    data = dataset.evaluation_data if dataset else evaluation_data.described("the job's own", None, config)
    stopped = early_stopping.decision(rule, model_dir, data) if rule else None
    messages.say_start(
        plan, dataset, params, job.serving_input_fn is not None, early_stopping.sentence(stopped) if stopped else None
    )
    if plan.is_chief:
        messages.say_precision(plan, runtime.has_gpus(), machine.cpu_flags())

    # 6. Make the trainer of --loop, and what evaluates and exports its checkpoints.
    profiler = profilers.Profiler(
        model_dir, plan.name, schedule.steps(config.profile_steps), plan.is_profiled, params.max_steps
    )
    if plan.trains:
        watchdog.when_asked_to_profile(profiler.ask)
    input_fn = micro_batches.input_fn_of_steps(input_fn_of(plan, dataset), config.accumulate_steps)
    compared = None
    if plan.in_sync and job.input_fn:
        compared = FirstBatches(plan)
        input_fn = compared.watched(input_fn)
    loop = loops.Loop(
        plan,
        params,
        watchdog,
        _stop_reason(config, rule, data),
        profiler,
        compared,
        params_of_run.keep_position(plan, params),
    )
    waited = reports.Waits(memory.waited_secs if memory else None)
    watchdog.hear_waits(waited.totals)
    setup = Setup(plan, watchdog, job, params, run_configs, input_fn, loop, waited, dataset)
    trainer = make_trainer(setup)
    serving_input_fn = serving_inputs.serving_input_fn_of(job, params, dataset)
    exports = exporters.Exports(model_dir, exporters.make(config.export, job, serving_input_fn, data), serving_input_fn)
    trains_from = params.start_step if plan.trains else None
    after_last = wrong_answers.writer(dataset, model_dir)
    evaluation = Evaluation(model_dir, lambda: make_evaluator(setup), exports, rule, trains_from, after_last, data)
    if plan.evaluates:  # before training costs hours
        evaluation.check_early()
    if plan.trains_alone and config.loop != 'estimator':  # its model draws what that of the training will draw
        evaluation.prepare()

    # 7. Train. A process that trains alone evaluates on the way, and the last checkpoint.
    if plan.role == 'evaluator':
        continuous_evaluation.evaluate_run(plan, evaluation, params.max_steps)
    elif plan.has_evaluator or not plan.trains_alone:
        trainer.train(saved=lambda step: None)
    else:
        with evaluation.held() as is_ours:
            is_ours()
            trainer.train(_evaluate_on_the_way(setup, trainer, evaluation, is_ours, profiler))
            if not watchdog.stopped_by:
                watchdog.enter(training_file.EVALUATING)
                if is_ours():
                    evaluation.of_last()

    profiler.close(_PROFILED_SECS if watchdog.stopped_by is None else _STOPPED_SECS)

    # 8. Part from the other tasks. The chief evaluates the last checkpoint where there is no evaluator.
    if plan.trains and not plan.trains_alone:
        _part(plan, watchdog, evaluation, compared)

    # 9. Say what was reached, to the evaluator, the supervisor and the user.
    step, why = checkpoints.last_step(model_dir), None
    if plan.trains and watchdog.stopped_by:
        watchdog.finish(training_file.STOPPED, step=step)
    if plan.in_sync and not plan.is_chief:  # of a store's checkpoints a worker has the one of the start
        step = max(step, watchdog.step or 0)
    if plan.trains:
        why = loop.why or training_file.MAX_STEPS  # Estimator itself trains nothing if that is reached already
        if not watchdog.stopped_by:
            watchdog.finish(training_file.ENDED, why, step)
            if plan.is_chief:
                messages.say_why_early(why, step, params, loop.batches)
                if why in (training_file.MAX_STEPS, training_file.MAX_SECS):
                    messages.say_idle_rule(plan, params.max_steps)
    if not watchdog.stopped_by:
        messages.say_end(model_dir, step, why, evaluation.results.get(step), bool(exports))
    return _stopped(watchdog, step)


def _peer_watch(plan: Plan) -> peers.PeerWatch:
    """A watch over the peers that begins now: data may have taken long to get here."""
    config = plan.config
    return peers.PeerWatch(
        plan.watched_peers(),
        config.join_timeout_secs,
        config.lost_peer_secs,
        any_is_enough=plan.role == 'ps',
        askers=plan.num_watchers,
        ways=plan.ways,
    )


def _stop_reason(
    config: TrainerConfig, rule: early_stopping.EarlyStopping | None, data: str
) -> Callable[[], str | None]:
    """() -> why training should stop now, or None. `data`: what is evaluated on."""
    # What earlier processes of the run have taken, as far as the clock of the day tells; that may jump from now on.
    before = max(0.0, time.time() - float(os.environ.get(protocol.STARTED) or math.inf))
    began = time.monotonic()

    def reason() -> str | None:
        if config.max_secs and before + time.monotonic() - began >= config.max_secs:
            return training_file.MAX_SECS
        if rule and early_stopping.decision(rule, config.model_dir, data):
            return training_file.EARLY_STOPPING
        return None

    return reason


def _evaluate_on_the_way(
    setup: Setup, trainer: Trainer, evaluation: Evaluation, is_ours: Callable[[], bool], profiler: profilers.Profiler
) -> Callable[[int], None]:
    """(step of a checkpoint) -> evaluates it, at most every --eval_throttle_secs. The last one comes later."""
    config, watchdog = setup.plan.config, setup.watchdog
    evaluate_at = time.monotonic() + (0 if trainer.evaluates_first_checkpoint else config.throttle_secs)
    # A step may move the global step by more than 1, and --epochs count batches. Loop knows the last one.
    last_step = setup.params.max_steps if config.epochs is None else math.inf

    def saved(step: int) -> None:
        nonlocal evaluate_at
        is_last = step >= last_step or watchdog.stopped_by is not None or setup.loop.why is not None
        if is_last or time.monotonic() < evaluate_at:
            return
        if not is_ours():
            evaluate_at = time.monotonic() + config.throttle_secs
            return
        profiler.interrupt(step, 'an evaluation follows')
        if checkpoint := checkpoints.newest(config.model_dir, step):
            evaluation.evaluate_checkpoint(checkpoint, final=False)
        evaluate_at = time.monotonic() + config.throttle_secs
        watchdog.enter(training_file.TRAINING)
        profiler.go_on(step)

    return saved


def _part(plan: Plan, watchdog: Watchdog, evaluation: Evaluation, compared: FirstBatches | None) -> None:
    """Every task that has trained in a cluster tells the others, and waits while they need it."""
    if plan.in_sync:
        coordination.wait_for_all('trained', _TRAINED_SECS)
        if compared:
            compared.after_training()
    else:
        if plan.config.sync_ps:
            parameter_server.wait_for_all(plan.reached.ps, plan.training_index, plan.num_training_tasks, _TRAINED_SECS)
            watchdog.release_peers()
        parameter_server.tell_left(plan.reached.ps, plan.training_index, done=not watchdog.stopped_by)
    chief_evaluates = not watchdog.stopped_by and not plan.has_evaluator
    if plan.is_chief or not plan.in_sync or not chief_evaluates:
        watchdog.release_peers()  # the chief evaluates alone
    if not chief_evaluates:
        return
    watchdog.enter(training_file.EVALUATING)
    if plan.is_chief:
        with evaluation.held() as is_ours:
            if is_ours():
                evaluation.of_last()
    if plan.in_sync:  # the others stay until the chief has evaluated: it would take them for lost
        try:
            coordination.wait_for_all('evaluated', _EVALUATED_SECS)
        except tf.errors.OpError as error:
            if not plan.is_chief:
                raise
            _log.warning('a worker has left before the evaluation was done: %s', error.message.splitlines()[0])
    watchdog.release_peers()


def _stopped(watchdog: Watchdog, step: int | None) -> ending.End | None:
    signum = watchdog.stopped_by
    if signum is None:
        return None
    peer = ' to another task' if watchdog.follows else ''
    saved = '' if step is None else f'; saved at step {step}, the same command resumes'
    return ending.End(128 + signum, f'stopped by {watchdog.name_of(signum)}{peer}{saved}', follows=watchdog.follows)

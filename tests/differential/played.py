"""Trains a job of the corpus in each setting, in this process, and compares."""

import contextlib
import dataclasses
import functools
import io
import os
import tempfile
import traceback

import tensorflow as tf

from estimator_trainer import main as trainer
from estimator_trainer.evaluation import evaluation
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir.run_folder import RunFolder
from tests.differential import compare, oracle, outcome, registry, rewriting, workers
from tests.differential.data import RECORD
from tests.differential.jobs import types
from tests.differential.settings import (
    ACCUMULATED,
    BATCH_SIZE,
    DIFFERS,
    EQUAL,
    EVALUATED,
    MEMORY,
    REFUSED,
    REPLICAS,
    RESUMED,
    SAVE_STEPS,
    SEED,
    SINGLE,
    SKIPPED,
    SUMMARY_STEPS,
    WORKERS,
)

v1 = tf.compat.v1
_STOPS_AT, _FAILS_AT = 8, 15  # numbers of batches
_BY_TF_DATA = 'tf.data reads its batches'


def verdicts(name, settings) -> dict:
    """setting -> (verdict, in detail)"""
    case = registry.CASES[name]
    found = {}
    expected = None if set(settings) <= {*REPLICAS, *ACCUMULATED, *WORKERS} else _of_oracle(case)
    for setting in settings:
        try:
            found[setting] = _verdict(case, setting, expected)
        except Exception as error:
            traceback.print_exc()
            found[setting] = DIFFERS, f'{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ""}'
    return found


def _verdict(case, setting, expected) -> tuple:
    if isinstance(expected, str):
        return DIFFERS, f'the oracle fails: {expected}'
    if setting in WORKERS:
        return workers.verdict(case.name)
    evaluations.are_on = setting == EVALUATED
    if setting in ACCUMULATED:
        return _of_accumulated(case)
    if setting in REPLICAS:
        if not case.replicas:
            return SKIPPED, 'not for replicas'
        found = _of_trainer(case, '7', replicas=2, in_memory=setting in MEMORY)
        if setting in MEMORY and any(found.read):
            return SKIPPED, _BY_TF_DATA
        wrong, rounded = _differences(_of_trainer(case, '1', replicas=2), found, case, setting, 1e-6), ''
    else:
        if setting in RESUMED:
            if not case.resumes:
                return SKIPPED, 'no checkpoint holds all of its state'
            if len(sum(expected.read, [])) <= _at(setting):
                return SKIPPED, 'it has ended by then'
        found = _played(case, setting)
        if setting in MEMORY and any(found.read):
            return SKIPPED, _BY_TF_DATA
        wrong, rounded = _differences(expected, found, case, setting), ''
        if wrong and not _differences(expected, found, case, setting, 1e-5):
            with rewriting.off():
                unwritten = _differences(_of_oracle(case), _played(case, setting), case, setting)
            wrong, rounded = (
                (unwritten, '') if unwritten else ([], "but for how TensorFlow's rewriting of graphs rounds")
            )
    if wrong:
        return DIFFERS, '; '.join(wrong)
    if setting == '1':
        return EQUAL, ''
    if found.single is not None:
        if case.single is None:
            return DIFFERS, f'several steps a call were expected: {found.single}'
        if case.single not in found.single:
            return DIFFERS, f'the reason is {found.single!r}, not {case.single!r}'
        return SINGLE, found.single
    if case.single and setting not in REPLICAS:
        return DIFFERS, f'one step a call was expected: {case.single}'
    return EQUAL, rounded or f'{found.runs} calls'


def _of_accumulated(case) -> tuple:
    """Steps of three batches, in calls of several and of one, and those of three replicas."""
    if not case.replicas:
        return SKIPPED, 'not for replicas'
    try:
        found = _of_trainer(case, '7', accumulate=3)
    except RuntimeError as error:
        _, refused, why = str(error).partition('error: --accumulate_steps: ')
        if refused:
            return REFUSED, why.partition(';')[0]
        end = str(error).rpartition('trainer, ')[2]
        try:
            _of_trainer(case, '1', replicas=3)
        except RuntimeError as other:
            if str(other).endswith(end):
                return EQUAL, f'both end: {end}'
        raise
    single, replicas = _of_trainer(case, '1', accumulate=3), _of_trainer(case, '1', replicas=3)
    wrong, rounded = compare.differences(single, found, case), ''
    if wrong and not compare.differences(single, found, case, 1e-5):
        with rewriting.off():
            unwritten = (_of_trainer(case, steps, accumulate=3) for steps in ('1', '7'))
            wrong = compare.differences(*unwritten, case)
        rounded = "but for how TensorFlow's rewriting of graphs rounds"
    if not case.updates:
        for name in set(replicas.last) - set(found.last):  # slots, which a strategy calls otherwise
            del replicas.last[name]
        wrong += [f'replicas: {text}' for text in compare.differences_of_last(replicas, found, 1e-5)]
    return (DIFFERS, '; '.join(wrong)) if wrong else (EQUAL, rounded or f'{found.runs} calls')


def _played(case, setting):
    """The Outcome of the trainer."""
    if setting in MEMORY:
        return _of_trainer(case, '7', in_memory=True)
    if setting not in RESUMED:
        return _of_trainer(case, setting)
    return _of_trainer(case, '7', **{'stops_at' if setting == 'stopped' else 'fails_at': _at(setting)})


def _differences(expected, found, case, setting, tolerance=0.0) -> list:
    if setting in RESUMED:
        return compare.differences_of_resumed(expected, found, setting == 'stopped', tolerance)
    if setting in MEMORY:  # nobody has noted the batches
        found = dataclasses.replace(found, read=expected.read)
    return compare.differences(expected, found, case, tolerance)


def _at(setting) -> int:
    return _STOPS_AT if setting == 'stopped' else _FAILS_AT


def _of_oracle(case):
    """The Outcome, or the error as a text."""
    with tempfile.TemporaryDirectory(prefix='differential-') as folder:
        read, calls = [], []
        try:
            for max_steps in case.steps:
                RECORD.begin(folder)
                _prepare_folder(case, folder)
                oracle.train(case.make(), folder, max_steps, case.warm_start)
                read.append(RECORD.read)
                calls += RECORD.calls
        except Exception as error:
            traceback.print_exc()
            return f'{type(error).__name__}: {error}'[:300]
        return outcome.of_folder(folder, read, calls)


def _of_trainer(case, steps_per_call, replicas=1, accumulate=1, stops_at=None, fails_at=None, in_memory=False):
    with tempfile.TemporaryDirectory(prefix='differential-') as folder:
        read, calls, says = [], [], []
        starts = [(max_steps, None, None) for max_steps in case.steps]
        if stops_at is not None or fails_at is not None:
            starts = [(case.steps[-1], stops_at, fails_at), (case.steps[-1], None, None)]
        for max_steps, *disturbed in starts:
            RECORD.begin(folder, *disturbed, in_memory=in_memory)
            _prepare_folder(case, folder)
            flags = [f'--max_steps={max_steps}', f'--steps_per_call={steps_per_call}', f'--num_replicas={replicas}']
            flags.append(f'--accumulate_steps={accumulate}')
            code, lines = _trained(case, folder, flags)
            says += lines
            read.append(RECORD.read)
            calls += RECORD.calls
            if code != 0 and not any(disturbed):
                raise RuntimeError(f'the trainer ends with {code}: {" | ".join(lines[-3:])}')
        why = RunFolder(folder).training.get('why')
        return outcome.of_folder(folder, read, calls, why, says, RECORD.runs)


def _prepare_folder(case, folder):
    if case.warm_start and not os.path.exists(os.path.dirname(RECORD.earlier)):
        os.mkdir(os.path.dirname(RECORD.earlier))
        types.earlier_checkpoint(os.path.dirname(RECORD.earlier))


def _trained(case, folder, flags) -> tuple:
    """(exit code, lines of the log)"""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):  # the log goes there too
        code = trainer.main(
            [
                'trainer',
                f'--job=tests.differential.registry:{case.name}',
                f'--model_dir={folder}',
                f'--seed={SEED}',
                f'--batch_size={BATCH_SIZE}',
                f'--save_checkpoints_steps={SAVE_STEPS}',
                f'--save_summary_steps={SUMMARY_STEPS}',
                '--eval_steps=1',
                '--export=',
                '--report=off',
                '--allocator=system',
                *flags,
            ]
        )
    return code, errors.getvalue().splitlines()


class _Evaluations:
    """Evaluations cost more than the training here. They are left out of all settings but one."""

    are_on = True

    def install(self):
        for name in ('evaluate_checkpoint', 'of_last', 'check_early'):
            original = getattr(evaluation.Evaluation, name)
            setattr(evaluation.Evaluation, name, self._if_on(original))

    def _if_on(self, original):
        return lambda *args, **kwargs: original(*args, **kwargs) if self.are_on else None


evaluations = _Evaluations()


def prepare(replicas) -> None:
    """Begins a process, which has so many devices from now on."""
    tf.config.threading.set_intra_op_parallelism_threads(0)
    tf.config.threading.set_inter_op_parallelism_threads(0)
    cpu = tf.config.list_physical_devices('CPU')[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    tf.config.set_logical_device_configuration = lambda *args: None  # the trainer's, which may need fewer
    run = v1.train.MonitoredSession.run

    def counted(session, *args, **kwargs):
        before = len(RECORD.read)
        try:
            return run(session, *args, **kwargs)
        finally:
            RECORD.runs += len(RECORD.read) > before

    v1.train.MonitoredSession.run = counted
    evaluations.install()
    rewriting.install()
    begins = watchdogs.Watchdog.__init__  # one that was told to stop, and has nothing left to save, ends its process
    watchdogs.Watchdog.__init__ = functools.partialmethod(begins, leave=lambda code: None)

"""Faults with nobody to look after the tasks. `python -m tests.chaos` has many more of them."""

import os
import shutil

import pytest

from estimator_trainer import exit_codes
from tests.chaos import alone, broken, files
from tests.chaos.faults import TRAINING, Fault
from tests.chaos.stage import SAVE_STEPS, Stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def preempted(tmp_path_factory):
    """The model_dir of a single process that was told to stop after step 47."""
    fault = Fault(at='trainer', moment=TRAINING, step=47, signal='SIGTERM')
    with Stage(tmp_path_factory.mktemp('preempted') / 'case', fault) as stage:
        program = stage.trainer('--param=slow_ms=20')
        assert program.wait() == exit_codes.TERMINATED, program.output
        assert 'the same command resumes' in program.last_line
        assert files.named(stage.model_dir) == max(event['step'] for event in stage.scene.events(TRAINING))
        assert stage.is_empty()
    return stage.model_dir


def goes_on(model_dir, folder, undisturbed):
    """Finishes the run that a model_dir holds, with the weights of an undisturbed one. Its output."""
    with Stage(folder) as stage:
        shutil.copytree(model_dir, stage.model_dir)
        program = stage.trainer('--param=slow_ms=20')
        assert program.wait() == 0, program.output
        assert files.differences(stage.model_dir, undisturbed.alone()) == []
        assert files.named(stage.model_dir) == 100
        return program.output


def test_sigterm_and_the_same_command_again_lose_nothing(preempted, tmp_path, undisturbed):
    output = goes_on(preempted, tmp_path / 'case', undisturbed)
    assert f'resumes at step {files.named(preempted)} of 100' in output


def test_a_damaged_newest_checkpoint_is_set_aside(preempted, tmp_path, undisturbed):
    shutil.copytree(preempted, tmp_path / 'damaged')
    newest = files.named(preempted)
    os.truncate(tmp_path / f'damaged/model.ckpt-{newest}.data-00000-of-00001', 100)
    output = goes_on(tmp_path / 'damaged', tmp_path / 'case', undisturbed)
    assert f'WARNING: checkpoint model.ckpt-{newest} cannot be read' in output
    assert f'resumes at step {newest // SAVE_STEPS * SAVE_STEPS} of 100' in output
    assert (tmp_path / f'case/model/damaged/model.ckpt-{newest}.index').exists()


def test_nan_is_permanent_and_names_the_last_good_checkpoint(tmp_path, undisturbed):
    check(
        broken.Fails('nan_at=50', exit_codes.NOT_FINITE, says='The last good checkpoint is of step 40'),
        tmp_path,
        undisturbed,
    )


def test_a_second_trainer_is_refused(tmp_path, undisturbed):
    check(broken.taken_model_dir, tmp_path, undisturbed)


def test_sigterm_to_one_worker_stops_both_at_one_step(tmp_path, undisturbed):
    fault = Fault(at='worker:1', moment=TRAINING, step=47, signal='SIGTERM')
    check(alone.Preempted(fault), tmp_path, undisturbed)


def test_the_survivor_of_kill_9_ends(tmp_path, undisturbed):
    fault = Fault(at='worker:1', moment=TRAINING, step=47)
    check(alone.Survivor(fault, within=alone.DEFAULT_BOUND_SECS), tmp_path, undisturbed)


def test_the_peer_of_a_frozen_worker_ends(tmp_path, undisturbed):
    fault = Fault(at='worker:0', moment=TRAINING, step=47, signal='SIGSTOP')
    check(alone.Survivor(fault, within=60, flags=('--lost_peer_secs=10',)), tmp_path, undisturbed)


def check(play, tmp_path, undisturbed):
    row = play(tmp_path / 'case', undisturbed)
    assert not row.problems, row.line()

"""Two hosts and no engine: each task is started by hand, with --hosts and --rank."""

import sys
import time

import launch
import pytest

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import file_names, protocol
from tests.chaos import faults, files
from tests.chaos.stage import Stage
from tests.submit.hosts import ADDRESSES, Hosts

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('can_have_hosts')]
START_SECS = 300
FLAGS = ('--cluster_from=hosts', f'--hosts={",".join(ADDRESSES)}')
MAIN = (f'--flagfile={launch.CONFIGS}/mnist_5k.flags', '--batch_size=32', '--intra_op_threads=1')


def wait_for_step(number, stage):
    """Until the run has finished that step."""

    def reached():
        step = protocol.read_json(str(stage.model_dir / file_names.TRAINING)).get('step') or 0
        return step >= number or any(program.poll() is not None for program in stage.programs)

    try:
        faults.until(reached, '', START_SECS)
    except TimeoutError:
        raise AssertionError(f'no step {number} in {START_SECS} s:\n{output(stage)}') from None


def output(stage) -> str:
    return '\n'.join(program.output for program in stage.programs)


def ends(programs) -> list:
    return [program.wait() for program in programs]


def test_the_main_job_runs_across_the_link_and_outlives_five_seconds_without(tmp_path, data_dir):
    with Stage(tmp_path / 'case') as stage, Hosts() as hosts:
        programs = [
            stage.start(
                [
                    *hosts.on(rank),
                    sys.executable,
                    '-m',
                    'estimator_trainer',
                    *MAIN,
                    *FLAGS,
                    f'--rank={rank}',
                    f'--model_dir={stage.model_dir}',
                    f'--data_dir={data_dir}',
                ]
            )
            for rank in (0, 1)
        ]
        wait_for_step(200, stage)
        hosts.cut()
        time.sleep(5)  # it is the fault
        hosts.mend()
        assert ends(programs) == [0, 0], output(stage)
        assert launch.metrics(stage.model_dir)[-1]['accuracy'] >= 0.965
        assert launch.metrics(stage.model_dir)[-1]['step'] == 1563


def test_a_link_that_stays_down_ends_both_and_the_same_commands_again_lose_nothing(tmp_path, undisturbed):
    held = faults.Fault(at='', moment='', by_step=35)
    with Stage(tmp_path / 'case', held) as stage, Hosts() as hosts:

        def start():
            return [
                stage.trainer(*FLAGS, f'--rank={rank}', '--param=slow_ms=50', before=hosts.on(rank)) for rank in (0, 1)
            ]

        programs = start()
        wait_for_step(30, stage)
        hosts.cut()
        assert ends(programs) == [exit_codes.LOST_PEER] * 2, output(stage)
        assert stage.is_empty()
        stage.scene.release()
        hosts.mend()
        again = start()
        assert ends(again) == [0, 0], output(stage)
        assert 'resumes at step' in again[0].output
        assert files.named(stage.model_dir) == 100
        assert files.differences(stage.model_dir, undisturbed.two_workers()) == []

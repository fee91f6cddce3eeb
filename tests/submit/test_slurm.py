"""A real Slurm runs what `python -m estimator_trainer submit slurm submit` hands it."""

import os
import re
import signal
import sys

import launch
import pytest

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import file_names, protocol
from tests.chaos import faults, files
from tests.chaos.stage import JOB, SAVING
from tests.submit import engines
from tests.submit.hosts import ADDRESSES
from tests.submit.slurm_cluster import SPARE, Slurm
from tf_config import ROLES

pytestmark = pytest.mark.slow

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')

EXAMPLE = launch.REPOSITORY / 'deploy' / 'mnist_two_workers.yaml'
MAIN_SECS = 300
START_SECS = 300
AGAIN_SECS = 300  # from a requeue to the end
LIMITED_SECS = 240  # Slurm looks at time limits twice a minute

# Plays the trainer where this is about Slurm alone; anything else is run by Python itself.
PLAYED = f"""#!/bin/bash
[ "$2" = estimator_trainer ] || exec {sys.executable} "$@"
say() {{
  printf '{{"task": "rank:%s", "code": %s}}' "$SLURM_PROCID" "$1" > "$ESTIMATOR_TRAINER_ERROR_FILE"
  exit "$1"
}}
until_told() {{ trap 'echo "told $SLURM_PROCID"; say 143' TERM; while :; do sleep .1; done; }}
first=$(( ! ${{SLURM_RESTART_COUNT:-0}} ))
"""


@pytest.fixture(scope='module')
def slurm(can_have_hosts, tmp_path_factory):
    problem = engines.missing('slurm-wlm')
    if problem:
        pytest.skip(f'Slurm: {problem}')
    with Slurm(tmp_path_factory.mktemp('slurm')) as cluster:
        yield cluster


class Job:
    """A job description in a folder of its own, submitted, and what becomes of it."""

    def __init__(self, slurm, folder, description):
        self.slurm, self.folder, self.model_dir = slurm, folder, folder / 'the run'
        here = str(launch.REPOSITORY)
        described = {
            'name': 'job',
            'flagfile': '/dev/null',
            'model_dir': str(self.model_dir),
            'python': sys.executable,
            'working_dir': str(folder),
            'environment': {'PYTHONPATH': here},
            'roles': {'worker': {'count': 2, 'cores': 2, 'memory_gib': 1}},
            **description,
        }
        self.name = described['name']
        (folder / 'job.yaml').write_text(yaml.safe_dump(described, sort_keys=False))
        done = slurm.call(
            'env',
            f'PYTHONPATH={here}',
            sys.executable,
            '-m',
            'estimator_trainer',
            'submit',
            'slurm',
            'submit',
            folder / 'job.yaml',
        )
        assert done.returncode == 0, done.stderr
        self.number = int(re.search(r'Submitted batch job (\d+)', done.stdout)[1])

    @classmethod
    def played(cls, slurm, folder, trainer, description):
        """One whose trainer is a few lines of shell."""
        (folder / 'played').write_text(PLAYED + trainer)
        (folder / 'played').chmod(0o755)
        return cls(slurm, folder, {'python': str(folder / 'played'), **description})

    @property
    def output(self) -> str:
        path = self.folder / f'{self.name}-{self.number}.out'
        return path.read_text(errors='replace') if path.exists() else ''

    @property
    def story(self) -> str:
        return f'{self.slurm.job(self.number)}\n{self.output}\n{self.slurm.logs()}'

    def until(self, condition, what, secs) -> None:
        try:
            faults.until(condition, '', secs)
        except TimeoutError:
            raise AssertionError(f'{what}: not in {secs} s\n{self.story}') from None

    def wait_for(self, text, secs, times=1) -> None:
        """Until the output has `text`, so many times."""
        self.until(lambda: self.output.count(text) >= times, text, secs)

    def wait_for_step(self, step) -> None:
        """Until that step has been finished."""
        board = str(self.model_dir / file_names.TRAINING)
        self.until(lambda: (protocol.read_json(board).get('step') or 0) >= step, f'step {step}', START_SECS)

    def wait(self, secs) -> dict:
        """What Slurm says of it when it has ended for good."""
        self.until(lambda: self.slurm.has_ended(self.number), 'the end', secs)
        return self.slurm.job(self.number)

    def task(self, rank) -> int:
        """The process of a task."""
        return launch.trainer_process(self.model_dir, lambda environ: environ['SLURM_PROCID'] == str(rank))


@pytest.fixture(scope='module')
def limited(slurm, tmp_path_factory):
    """A job that runs into its time limit, beside the other tests."""
    trainer = 'if (( first )); then until_told; fi\n'
    return Job.played(
        slurm,
        tmp_path_factory.mktemp('limited'),
        trainer,
        {'roles': {'worker': {'memory_gib': 1}}, 'time_limit_minutes': 2, 'slurm': {'partition': SPARE}},
    )


@pytest.mark.usefixtures('limited')
def test_two_workers_on_two_nodes_reach_the_accuracy(slurm, tmp_path, data_dir):
    description = yaml.safe_load(EXAMPLE.read_text())
    flags = ['--intra_op_threads=1', f'--data_dir={data_dir}']
    description = {
        'name': description['name'],
        'flagfile': str(launch.REPOSITORY / description['flagfile']),
        'args': [*description['args'], *flags],
        'roles': description['roles'],
        'slurm': {'extra': ['--nodes=2']},
    }
    job = Job(slurm, tmp_path, description)
    ended = job.wait(MAIN_SECS)
    assert (ended['JobState'], ended['NodeList']) == ('COMPLETED', 'n[1-2]'), job.story
    assert 'cluster from Slurm' in job.output
    assert launch.metrics(job.model_dir)[-1]['accuracy'] >= 0.965


def test_a_preempted_job_that_loses_a_task_too_ends_with_the_undisturbed_weights(slurm, tmp_path, undisturbed):
    scene = faults.Scene(tmp_path)
    scene.plan([faults.Fault(at='', moment='', by_step=step) for step in (30, 80)])
    environment = {'PYTHONPATH': str(launch.REPOSITORY), faults.FOLDER: str(tmp_path)}
    job = Job(slurm, tmp_path, {'args': [*JOB, *SAVING, '--param=slow_ms=50'], 'environment': environment})

    job.wait_for_step(25)
    slurm.call('scancel', '--signal=TERM', job.number)
    job.wait_for('received SIGTERM', START_SECS, times=2)
    scene.release(0)
    job.wait_for('again, 1 of 3 without a new checkpoint', START_SECS)
    saved = files.named(job.model_dir)
    assert saved >= 25
    assert job.output.count(f'[exit code {exit_codes.TERMINATED}') == 2, job.story

    job.wait_for(f'resumes at step {saved} of 100', AGAIN_SECS)
    job.wait_for_step(saved + 5)
    os.kill(job.task(1), signal.SIGKILL)
    scene.release(1)
    job.wait_for('again, ', START_SECS, times=2)

    ended = job.wait(AGAIN_SECS)
    assert (ended['JobState'], ended['Restarts']) == ('COMPLETED', '2'), job.story
    assert files.named(job.model_dir) == 100
    assert files.differences(job.model_dir, undisturbed.two_workers()) == []


def test_roles_with_needs_of_their_own_are_one_cluster_and_requeued_together(slurm, tmp_path):
    job = Job.played(
        slurm,
        tmp_path,
        f"""
(( first )) && say 193
flags=(); for word; do case $word in --cluster_from=*|--roles=*) flags+=("$word");; esac; done
exec {sys.executable} -m tf_config show "${{flags[@]}}"
""",
        {'roles': {'chief': {}, 'worker': {}, 'evaluator': {'cores': 2}}},
    )
    ended = job.wait(START_SECS)
    assert (ended['JobState'], ended['Restarts']) == ('COMPLETED', '1'), job.story
    first, second = ADDRESSES
    for rank, own in enumerate(('chief', 'worker', 'evaluator')):
        lines = (line for line in job.output.splitlines() if line.startswith(f'{rank}: '))
        table = [row for row in (line.split()[1:] for line in lines) if row[0] in ROLES]
        places = {row[0]: row[2].rpartition(':')[0] for row in table}
        assert places == {'chief': first, 'worker': first, 'evaluator': second}, job.story
        assert [row[0] for row in table if 'this' in row] == [own]


def test_a_permanent_failure_is_not_tried_again(slurm, tmp_path):
    job = Job.played(
        slurm,
        tmp_path,
        """
(( SLURM_PROCID )) && say 70
trap '' TERM  # srun ends the step as soon as one has failed
until [ -s "${ESTIMATOR_TRAINER_ERROR_FILE%0.error.json}1.error.json" ]; do sleep .05; done
say 193
""",
        {},
    )
    ended = job.wait(START_SECS)
    assert (ended['JobState'], ended['ExitCode'], ended['Restarts']) == ('FAILED', '70:0', '0'), job.story
    assert 'the end, the same command would fail the same way: rank:1' in job.output


def test_a_cancelled_job_stays_cancelled(slurm, tmp_path):
    job = Job.played(slurm, tmp_path, 'echo here\nuntil_told\n', {})
    job.wait_for('here', START_SECS, times=2)
    slurm.call('scancel', job.number)
    ended = job.wait(START_SECS)
    job.wait_for('told', START_SECS, times=2)
    assert (ended['JobState'], slurm.job(job.number)['Restarts']) == ('CANCELLED', '0'), job.story


def test_before_its_time_limit_a_job_is_told_and_requeued(slurm, limited):
    ended = limited.wait(LIMITED_SECS)
    assert (ended['JobState'], ended['Restarts']) == ('COMPLETED', '1'), limited.story
    assert limited.output.count('told 0') == 1
    assert 'again, 1 of 3' in limited.output

"""What a Slurm job does on each node if its model_dir is in a store."""

import json
import os
import subprocess
import sys

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.submit import slurm_node

SAYS = 'import json, os, sys; print(json.dumps([sys.argv[1:], os.environ["ESTIMATOR_TRAINER_ERROR_FILE"]]))'


def environ(tmp_path, rank=1):
    return {**os.environ, 'SLURM_TMPDIR': str(tmp_path), 'SLURM_PROCID': str(rank)}


@pytest.mark.parametrize('scratch', ['', '/local'])
def test_a_task_has_folders_of_its_own(tmp_path, scratch):
    command = [
        sys.executable,
        '-m',
        slurm_node.__name__,
        'run',
        '7',
        '0',
        scratch,
        sys.executable,
        '-c',
        SAYS,
        '--seed=1',
    ]
    done = subprocess.run(command, env=environ(tmp_path), capture_output=True, text=True, timeout=300, check=True)
    words, error_file = json.loads(done.stdout)
    own = tmp_path / 'estimator_trainer-7'
    assert words == ['--seed=1', f'--scratch_dir={scratch or own / "scratch"}']
    assert error_file == str(own / '0' / '1.error.json')
    assert own.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_enter_is_refused(tmp_path, capfd):
    own = tmp_path / 'estimator_trainer-7'
    own.mkdir()
    own.chmod(0o777)
    assert slurm_node.run('7', '0', '', ['true'], environ(tmp_path)) == exit_codes.CANNOT_WRITE
    assert capfd.readouterr().err == f'{own}: is not private to this user\n'


def test_a_node_tells_what_its_tasks_have_said_in_short_lines(tmp_path, capsys):
    for rank in range(2):
        errors = tmp_path / 'estimator_trainer-7' / '0'
        errors.mkdir(parents=True, exist_ok=True)
        said = {'task': f'worker:{rank}', 'code': 70, 'step': None, 'message': 'x' * 5000, 'traceback': ['y' * 5000]}
        protocol.write_json(str(errors / f'{rank}.error.json'), said)
    assert slurm_node.main(['tell', '7', '0', '70'], environ(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) < 1000 for line in lines)
    assert [json.loads(line)['task'] for line in lines] == ['worker:0', 'worker:1']


def test_a_job_that_is_done_leaves_nothing(tmp_path, capsys):
    (tmp_path / 'estimator_trainer-7' / 'scratch').mkdir(parents=True)
    assert slurm_node.main(['tell', '7', '0', '0'], environ(tmp_path)) == 0
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().out == ''

"""python -m tf_config check | show, of what an engine says in place of TF_CONFIG."""

import os

import pytest

from tf_config import SOURCES
from tf_config.__main__ import main

ENGINE_VARIABLES = ('SLURM_', 'OMPI_', 'PMI_', 'MPI_', 'ESTIMATOR_TRAINER_', 'JOB_COMPLETION_INDEX', 'TF_CONFIG')
RANK_1 = {'OMPI_COMM_WORLD_RANK': '1', 'OMPI_COMM_WORLD_SIZE': '2', 'OMPI_COMM_WORLD_LOCAL_RANK': '0'}


@pytest.fixture
def run(monkeypatch, capsys):
    """run(*argv, **environ) -> (exit code, stdout, stderr), in this process."""

    def run(*argv, **environ):
        with monkeypatch.context() as patch:
            for name in list(os.environ):
                if name.startswith(ENGINE_VARIABLES):
                    patch.delenv(name)
            for name, value in environ.items():
                patch.setenv(name, value)
            try:
                code = main(argv)
            except SystemExit as stop:
                code = stop.code
        return code, *capsys.readouterr()

    return run


def test_show_who_is_who(run):
    code, out, err = run('show', '--roles=chief:1,worker:1', '--hosts=a,b', '--base_port=3000', **RANK_1)
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ['chief', '0', 'a:3000', 'chief'],
        ['worker', '0', 'b:3000', 'this', 'task'],
    ]
    assert err == 'note: cluster from Open MPI: mpirun of 2 processes; rank 1 of 2 is worker:0\n'


def test_check_by_hand(run):
    code, out, _ = run('check', '--cluster_from=hosts', '--hosts=a,b', '--rank=0')
    assert (code, out) == (0, 'ok: worker:0 of 2 worker; strategy multi_worker_mirrored\n')


def test_check_of_a_lone_task(run):
    code, out, _ = run('check', '--cluster_from=hosts', '--hosts=a', '--rank=0')
    assert (code, out) == (0, 'ok: --cluster_from=hosts finds one task: a single process\n')


def test_every_source_has_a_resolver(run):
    for source in SOURCES[2:]:  # after auto and tf_config
        _, _, err = run('check', f'--cluster_from={source}')
        assert err.startswith('the cluster from '), err


@pytest.mark.parametrize(
    'argv, environ, parts',
    [
        (['--cluster_from=slurm'], {}, ['SLURM_JOB_ID', 'srun']),
        (['--cluster_from=nowhere'], {}, ['--cluster_from', 'slurm']),
        ([], RANK_1, ['the cluster from Open MPI is refused', '--hosts']),
        (['--roles=chef:1'], {}, ['--roles=chef:1', 'chief']),
        (['--strategy=none', '--hosts=a,b'], RANK_1, ['multi_worker_mirrored']),
        (['--file=some.json', '--cluster_from=slurm'], {}, ['--file=some.json', '--cluster_from=slurm', 'one of']),
    ],
)
def test_refused(run, argv, environ, parts):
    code, out, err = run('check', *argv, **environ)
    assert (code, out) == (64, '')
    assert all(part in err for part in parts), err


def test_a_file_is_judged_under_an_engine_too(run, tmp_path):
    file = tmp_path / 'config.json'
    file.write_text('{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}}')
    assert run('check', f'--file={file}', **RANK_1) == (
        0,
        'ok: worker:0 of 2 worker; strategy multi_worker_mirrored\n',
        '',
    )

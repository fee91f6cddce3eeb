"""`python -m estimator_trainer submit`, and what it never does."""

import os
import subprocess
import sys

import launch
import pytest

from estimator_trainer.submit import submit_command

EXAMPLE = launch.REPOSITORY / 'deploy' / 'mnist_two_workers.yaml'
PAGES = ('engines/README', 'architecture', 'security', 'monitoring', 'report', 'compat')
needs_yaml = pytest.mark.usefixtures('_yaml')


@pytest.fixture
def _yaml():
    pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')


class Client:
    """In place of subprocess.run: notes what it was given, and what was in the folder then."""

    def __init__(self, returncode=0):
        self.returncode, self.calls, self.texts = returncode, [], []

    def __call__(self, argv, **kwargs):
        self.calls.append(argv)
        self.texts.append({path: open(path).read() for path in argv if os.path.isfile(path)})
        return subprocess.CompletedProcess(argv, self.returncode)


@needs_yaml
def test_render_prints_the_script(capsys):
    assert submit_command.main(['slurm', 'render', str(EXAMPLE)]) == 0
    first = capsys.readouterr().out
    assert first.startswith('#!/bin/bash\n#SBATCH --job-name=mnist-two-workers\n')
    assert submit_command.main(['slurm', 'render', str(EXAMPLE)]) == 0
    assert capsys.readouterr().out == first


@needs_yaml
def test_the_script_on_show_is_that_of_the_example(capsys):
    assert submit_command.main(['slurm', 'render', str(EXAMPLE)]) == 0
    shown = EXAMPLE.parent / 'slurm' / 'mnist_two_workers.sbatch'
    assert capsys.readouterr().out == shown.read_text()


@needs_yaml
def test_render_writes_files(capsys, tmp_path):
    assert submit_command.main(['slurm', 'render', str(EXAMPLE), f'--out={tmp_path}/new']) == 0
    path = capsys.readouterr().out.strip()
    assert path == f'{tmp_path}/new/mnist-two-workers.sbatch'
    assert open(path).read().startswith('#!/bin/bash')


@needs_yaml
@pytest.mark.parametrize('code, ours', [(0, 0), (1, 1), (-9, 137)])
def test_submit_passes_the_clients_code_on(code, ours):
    client = Client(code)
    assert submit_command.main(['slurm', 'submit', str(EXAMPLE)], run=client) == ours
    ((program, path),) = client.calls
    assert program == 'sbatch'
    assert client.texts[0][path].startswith('#!/bin/bash')
    assert not os.path.exists(path)


@needs_yaml
def test_submit_leaves_the_files_in_out(tmp_path):
    client = Client()
    assert submit_command.main(['slurm', 'submit', str(EXAMPLE), f'--out={tmp_path}'], run=client) == 0
    assert client.calls == [['sbatch', f'{tmp_path}/mnist-two-workers.sbatch']]
    assert os.path.exists(client.calls[0][1])


@needs_yaml
def test_a_missing_client(capsys):
    def run(argv, **kwargs):
        raise FileNotFoundError(2, 'No such file or directory', argv[0])

    assert submit_command.main(['slurm', 'submit', str(EXAMPLE)], run=run) == 64
    assert 'sbatch: no such command' in capsys.readouterr().err


@needs_yaml
@pytest.mark.parametrize(
    'text, said',
    [
        ('name: [', 'job.yaml: is not YAML'),
        ('', 'job.yaml: give keys and values'),
        ('nam: x', 'job.yaml: nam=x: no such key (did you mean name?)'),
    ],
)
def test_a_bad_description(text, said, tmp_path, capsys):
    (tmp_path / 'job.yaml').write_text(text)
    assert submit_command.main(['slurm', 'render', str(tmp_path / 'job.yaml')]) == 64
    assert said in capsys.readouterr().err


@needs_yaml
def test_no_description(tmp_path, capsys):
    assert submit_command.main(['slurm', 'render', str(tmp_path / 'none.yaml')]) == 64
    assert 'none.yaml: No such file or directory' in capsys.readouterr().err


def test_without_pyyaml(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'yaml', None)
    assert submit_command.main(['slurm', 'render', str(EXAMPLE)]) == 64
    assert 'PyYAML, which reads it, is missing' in capsys.readouterr().err


@pytest.mark.parametrize(
    'argv, said',
    [
        ([], 'engine'),
        (['slrum', 'render', 'x'], f'slrum is none of {", ".join(submit_command.ENGINES)} (did you mean slurm?)'),
        (['slurm', 'draw', 'x'], 'draw is none of render, submit'),
        (['slurm', 'render'], 'JOB.yaml'),
    ],
)
def test_bad_arguments(argv, said, capsys):
    with pytest.raises(SystemExit) as caught:
        submit_command.main(argv)
    assert caught.value.code == 64
    assert said in capsys.readouterr().err


@pytest.mark.parametrize('module', ['slurm_script', 'kubernetes_objects', 'ray_job', 'verdict', 'submit_command'])
def test_no_tensorflow(module):
    script = (
        f'import sys, estimator_trainer.submit.{module}\n'
        'print([name for name in ("tensorflow", "ray", "yaml", "numpy") if name in sys.modules])'
    )
    done = launch.run([sys.executable, '-c', script], timeout=300)
    assert (done.code, done.output.strip()) == (0, '[]')


@pytest.mark.parametrize('page', ['README.md', *(f'docs/{name}.md' for name in PAGES)])
def test_every_engine_is_on_the_pages_that_list_them(page):
    text = (launch.REPOSITORY / page).read_text().lower()
    assert [engine for engine in submit_command.ENGINES if engine not in text] == []

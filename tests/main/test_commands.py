"""The front: `python -m estimator_trainer COMMAND`, and the console script."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from estimator_trainer import __version__
from estimator_trainer.config import commands

ROOT = pathlib.Path(__file__).parents[2]
CONSOLE_SCRIPT = 'import sys; sys.argv[0] = "estimator-trainer"; from estimator_trainer.__main__ import main; main()'
TENSORFLOW = """
import atexit, json, sys
known = {'tensorflow', 'tf_keras', 'numpy', 'ray', 'yaml', 'optuna'}
atexit.register(lambda: print(json.dumps(sorted(known.intersection(sys.modules)))))
"""


def run(folder, *argv, start=('-m', 'estimator_trainer')):
    return subprocess.run(
        [sys.executable, *start, *argv],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize('start', [('-m', 'estimator_trainer'), ('-c', CONSOLE_SCRIPT)], ids=['-m', 'console script'])
@pytest.mark.parametrize('name', commands.COMMANDS)
def test_every_command_explains_itself(tmp_path, name, start):
    done = run(tmp_path, name, '--help', start=start)
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('usage: ')
    assert 'estimator_trainer' in done.stdout.splitlines()[0] or name == 'cluster'
    assert not os.listdir(tmp_path)


def test_help_begins_with_every_command(tmp_path):
    shown = run(tmp_path, '--help').stdout.partition('\n\ntrain: ')[0]
    assert shown == commands.help_text()
    listed = [line.split()[0] for line in shown.splitlines() if re.match(r'  [a-z]', line)]
    assert listed == list(commands.COMMANDS)


def test_help_groups_the_commands_by_what_a_person_wants_to_do():
    groups = {}
    for part in commands.help_text().split('\n\n')[1:-1]:
        title, *lines = part.splitlines()
        groups[title] = [line.split()[0] for line in lines]
    assert list(groups) == [f'{title}:' for title in commands.PURPOSES.values()]
    assert groups['Every day:'] == ['train', 'cluster', 'status', 'report', 'predict']
    assert groups['Check:'] == ['doctor', 'verify', 'parity']


@pytest.mark.parametrize('name', commands.PROGRAMS)
def test_programs_beside_the_commands_are_named(tmp_path, name):
    with pytest.raises(ValueError, match=f'`{commands.PROGRAMS[name]} --help` explains it'):
        commands.split(['help', name])
    module = commands.PROGRAMS[name].removeprefix('python -m ')
    assert run(tmp_path, '--help', start=('-m', module)).returncode == 0


def test_train_is_the_default(tmp_path):
    given = ('--model_dir=model', '--max_steps=5', '--dry_run')
    bare, named = (run(tmp_path, *argv) for argv in (given, ('train', *given)))
    assert (bare.returncode, named.returncode) == (0, 0), named.stderr
    assert bare.stdout == named.stdout and 'params' in bare.stdout


def test_help_of_a_command(tmp_path):
    assert run(tmp_path, 'help').stdout == run(tmp_path, '--help').stdout
    assert run(tmp_path, 'help', 'predict').stdout == run(tmp_path, 'predict', '--help').stdout
    wrong = run(tmp_path, 'help', 'predct')
    assert (wrong.returncode, 'did you mean predict?' in wrong.stderr) == (64, True)


def test_the_version(tmp_path):
    done = run(tmp_path, '--version', start=('-c', CONSOLE_SCRIPT))
    assert (done.returncode, done.stderr) == (0, '')
    assert re.fullmatch(
        rf'estimator-trainer {re.escape(__version__)} \(tensorflow \S+, tf-keras \S+, Python 3\S+\)\n', done.stdout
    )


@pytest.mark.parametrize(
    'argv, said',
    [
        (['trian'], 'error: trian: no such command (did you mean train?).'),
        (['run', 'p.py'], 'error: run: no such command; a program of your own runs by'),
        (['frobnicate', '--help'], 'error: frobnicate: no such command. Commands are train, cluster,'),
        (['doctor', 'nowhere.py'], 'error: nowhere.py: there is no such file or folder.'),
        (['doctor', '--now'], 'error: --now: no such flag; doctor takes programs, folders and --verbose.'),
        (['cluster', '--workers=0'], '--workers=0: a cluster needs a worker'),
        (['submit', 'slrum', 'render', 'x'], 'python -m estimator_trainer submit: '),
        (['parity', '--steps=0'], 'error: --steps=0: give 1 or more.'),
        (['migrate'], 'error: --model_dir is missing'),
        (['predict', '--export=x'], 'error: --files is missing'),
        (['assess', 'nowhere.py'], 'error: nowhere.py: there is no such file or folder.'),
        (['verify', 'nowhere.py'], 'error: nowhere.py: there is no such file; name a Python program.'),
        (['sweep', '--', '--max_steps=1'], 'error: --param_space is missing: say what differs'),
        (['sweep', '--param-space=lr:lg:1:2'], 'error: --param_space=lr:lg:1:2: give NAME:KIND:VALUES, such as'),
        (['report', 'nowhere'], 'error: nowhere: there is no such folder; name the model_dir of a run.'),
        (['status', 'nowhere'], 'error: nowhere: there is no such folder; name the model_dir of a run.'),
        (['track', 'nowhere'], 'error: nowhere: there is no such folder; name the model_dir of a run.'),
        (['inspect', 'nowhere'], 'error: nowhere: there is no such folder or checkpoint.'),
    ],
)
def test_mistakes(tmp_path, argv, said):
    done = run(tmp_path, *argv)
    assert (done.returncode, done.stdout) == (64, '')
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize('name', commands.COMMANDS)
def test_help_imports_no_tensorflow(tmp_path, name):
    script = f'{TENSORFLOW}\nfrom estimator_trainer.__main__ import main; main()'
    done = run(tmp_path, name, '--help', start=('-c', script))
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [module for module in loaded if module != 'numpy' or name not in ('parity', 'migrate')] == []


def test_flags_of_a_job_have_their_defaults(tmp_path):
    """absl would read the trainer's command line for them, where it knows no --job."""
    (tmp_path / 'old.py').write_text(
        'from absl import flags\nfrom estimator_trainer import Job\n'
        'flags.DEFINE_float("rate", 0.5, "")\n'
        'job = Job(model_fn=print, input_fn=print, params={"rate": flags.FLAGS.rate})\n'
    )
    done = run(tmp_path, '--job=old:job', '--model_dir=run', '--max_steps=3', '--dry_run')
    assert done.returncode == 0, done.stderr
    assert "params {'rate': 0.5}" in done.stdout + done.stderr

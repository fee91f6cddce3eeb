"""`python -m estimator_trainer` up to the door of TensorFlow, each run in its own, bounded process.

Every run is watched: it may import no TensorFlow, open no socket and write no file.
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest

from estimator_trainer import main
from estimator_trainer.config import trainer_config

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120

# Runs `python -m MODULE ARGS` under an audit hook, and reports what it did into a file.
WATCHED = """
import atexit, json, os, runpy, sys
report, module, *args = sys.argv[1:]
seen = []
def hook(event, given):
    if event == 'open':
        path, mode, flags = given
        new = not isinstance(path, int)  # and not a descriptor that is there already
        if new and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != os.devnull:
            seen.append(f'writes {path}')
    elif event.startswith('socket.') or event in ('os.mkdir', 'os.rename', 'subprocess.Popen', 'os.fork'):
        seen.append(event)
sys.addaudithook(hook)
def tell():
    loaded = {'tensorflow', 'tf_keras', 'numpy'} & set(sys.modules)
    done = sorted({*seen, *(f'imports {name}' for name in loaded)})
    with open(report, 'w') as file:
        json.dump(done, file)
atexit.register(tell)
sys.argv = [module, *args]
runpy.run_module(module, run_name='__main__', alter_sys=True)
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str
    seen: list


def run(folder, *argv, module='estimator_trainer', tf_config=None, **more):
    """Runs in `folder`, which is empty but for what the test has put there. `more`: of the environment."""
    environ = {**os.environ, 'PYTHONPATH': str(ROOT), 'PYTHONDONTWRITEBYTECODE': '1', **more}
    environ.pop('TF_CONFIG', None)
    if tf_config is not None:
        environ['TF_CONFIG'] = tf_config
    report = folder.parent / f'{folder.name}.report'
    done = subprocess.run(
        [sys.executable, '-c', WATCHED, str(report), module, *argv],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECS,
    )
    return Done(done.returncode, done.stdout, done.stderr, json.loads(report.read_text()))


GIVEN = ('--model_dir=model', '--max_steps=5', '--batch_size=8')
DRY = (*GIVEN, '--dry_run')


def cluster(task, **roles):
    role, _, index = task.partition(':')
    return json.dumps({'cluster': roles, 'task': {'type': role, 'index': int(index)}})


def test_the_watch_sees(tmp_path):
    (tmp_path / 'tensorflow.py').touch()
    (tmp_path / 'culprit.py').write_text(
        'import os, socket, tensorflow\nsocket.socket().close()\nos.mkdir("made")\nopen("made/file", "w").close()\n'
    )
    seen = run(tmp_path, module='culprit').seen
    assert {'imports tensorflow', 'socket.__new__', 'os.mkdir', 'writes made/file'} <= set(seen)


def test_help(tmp_path):
    assert run(tmp_path, '--help') == Done(0, trainer_config.help_text() + '\n', '', [])


def test_a_job_module_that_raises_ends_with_a_traceback_and_a_last_line(tmp_path):
    (tmp_path / 'broken.py').write_text('columns = {}\ncolumns["age"]\n')
    done = run(tmp_path, '--job=broken:job', *GIVEN)
    assert done.code == 1 and 'broken.py", line 2' in done.err
    assert done.err.splitlines()[-1].startswith("trainer: KeyError: 'age' (broken.py, line 2) [exit code 1: ")


@pytest.mark.parametrize('name', [[], ['trainer'], ['-c'], ['-m'], ['/bin/estimator-trainer']])
def test_no_flag_is_taken_for_the_name_of_the_program(name, capsys):
    assert main.main([*name, '--max_stps=5', '--model_dir=m']) == 64
    assert '--max_stps: no such flag (did you mean --max_steps?)' in capsys.readouterr().err


def test_a_field_that_a_job_does_not_have_is_one_sentence(tmp_path):
    (tmp_path / 'wrong.py').write_text(LIGHT.replace('params=', 'input_fm='))
    done = run(tmp_path, '--job=wrong:job', *GIVEN)
    assert (done.code, done.err) == (
        64,
        'error: --job=wrong:job: wrong.py, line 5: Job(input_fm=…): there is no such field (did you mean input_fn?).\n',
    )


def test_a_list_is_a_param(tmp_path):
    (tmp_path / 'light.py').write_text(LIGHT.replace('8', '[64, 32]'))
    assert "params {'hidden': [64, 32]}" in run(tmp_path, '--job=light:job', *DRY).out
    assert "params {'hidden': [16, 8, 4]}" in run(tmp_path, '--job=light:job', '--param=hidden=16,8,4', *DRY).out
    done = run(tmp_path, '--job=light:job', '--param=hidden=16,a', *DRY)
    assert done.code == 64 and done.err == (
        'error: --param=hidden=16,a: hidden is a list of ints, with commas between them, like its default [64, 32]; '
        "got '16,a'.\n"
    )


LIGHT = """
from estimator_trainer.jobs import Job
def model_fn(features, labels, mode, params):
    import tensorflow
job = Job(model_fn=model_fn, params={'hidden': 8})
"""

DRY_RUNS = {  # argv, TF_CONFIG, what is said
    'one process': (
        (),
        None,
        [
            'job mnist, data set mnist_5k, model_dir /',
            'strategy none; this process',
            'batch: 8 per replica x 1 replica(s) = 8 global',
            'evaluation: by this process',
            "'optimizer': 'sgd'",
        ],
    ),
    'params': (
        ('--param=optimizer=adam', '--param=shift_pixels=2'),
        None,
        ["'optimizer': 'adam'", "'shift_pixels': 2"],
    ),
    'two replicas': (('--num_replicas=2',), None, ['strategy mirrored', '= 16 global']),
    'a worker': (
        (),
        cluster('worker:1', worker=['a:1', 'b:1']),
        [
            'strategy multi_worker_mirrored; worker:1 of 2',
            'x 2 replica(s) = 16 global',
            'evaluation: by the chief, at the end',
        ],
    ),
    'a ps': (
        (),
        cluster('ps:0', chief=['a:1'], worker=['b:1'], ps=['p:1'], evaluator=['e:1']),
        ['strategy parameter_server; ps:0 of 4', 'asynchronous', 'evaluation: by the evaluator task'],
    ),
    'a note': ((), cluster('chief:0', master=['a:1']), ['"master" is read as "chief"']),
    'own job': (('--job=u_light:job', '--param=hidden=7'), None, ["params {'hidden': 7}"]),
    'a flag that is overridden': (
        ('--flagfile=u_flags',),
        None,
        ['--max_steps=5 (command line) overrides --epochs=4 (u_flags, line 1)', 'training: 5 steps'],
    ),
}


@pytest.mark.parametrize('argv, tf_config, parts', DRY_RUNS.values(), ids=DRY_RUNS)
def test_dry_run(tmp_path, argv, tf_config, parts):
    (tmp_path / 'u_flags').write_text('--epochs=4')
    (tmp_path / 'u_light.py').write_text(LIGHT)
    done = run(tmp_path, *DRY, *argv, tf_config=tf_config)
    assert (done.code, done.err, done.seen) == (0, '', [])
    assert all(part in done.out for part in parts), done.out
    assert sorted(os.listdir(tmp_path)) == ['u_flags', 'u_light.py']


def test_the_quick_check_of_a_supervisor_does_not_run_a_job_that_imports_tensorflow(tmp_path):
    (tmp_path / 'u_culprit.py').write_text('print("runs")\nimport tensorflow')
    done = run(tmp_path, *DRY, '--job=u_culprit:job', ESTIMATOR_TRAINER_QUICK_CHECK='1')
    assert (done.code, done.err, done.seen) == (0, '', [])
    assert 'params of u_culprit:job are read when it is loaded' in done.out
    assert 'runs' not in done.out and 'mnist' not in done.out


FLAGFILES = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob('configs/*.flags'))]


@pytest.mark.parametrize('flagfile', FLAGFILES)
def test_dry_run_of_the_flagfiles_of_the_readme(tmp_path, flagfile):
    (tmp_path / 'data/flights').mkdir(parents=True)
    for name in ('train-1.tfrecord', 'eval-1.tfrecord'):
        (tmp_path / 'data/flights' / name).touch()
    done = run(tmp_path, f'--flagfile={ROOT / flagfile}', '--model_dir=model', '--dry_run')
    assert (done.code, done.seen) == (0, []), done.err

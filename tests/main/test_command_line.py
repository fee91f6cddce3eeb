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
from estimator_trainer.run_dir import config_file
from estimator_trainer.training import plan as planning

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
    assert (done.code, done.err) == (64, 'error: Job(input_fm=…): there is no such field (did you mean input_fn?).\n')


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


USAGE_ERRORS = {
    'no model_dir': (('--max_steps=5',), None, '--model_dir'),
    'unknown flag': ((*GIVEN, '--batchsize=3'), None, 'did you mean --batch_size?'),
    'wrong type': ((*GIVEN, '--seed=x'), None, '--seed=x'),
    'out of bounds': ((*GIVEN, '--seed=-1'), None, '--seed=-1'),
    'stray word': ((*GIVEN, 'mnist'), None, 'mnist: every argument is a flag'),
    'missing flagfile': ((*GIVEN, '--flagfile=/no/such.flags'), None, '/no/such.flags'),
    'unknown param': ((*GIVEN, '--param=optimiser=adam'), None, "did you mean 'optimizer'?"),
    'param of another type': ((*GIVEN, '--param=classes=ten'), None, '--param=classes=ten'),
    'param that cannot work': ((*GIVEN, '--param=schedule=linear'), None, '--param=schedule=linear'),
    'TF_CONFIG is not JSON': (GIVEN, '{', 'For example: {'),
    'TF_CONFIG is of another job': (GIVEN, cluster('worker:2', worker=['a:1', 'b:1']), 'rule: which task this'),
    'TF_CONFIG and strategy': (
        (*GIVEN, '--strategy=mirrored'),
        cluster('worker:0', worker=['a:1', 'b:1']),
        'corrected: {',
    ),
    'no cluster': ((*GIVEN, '--strategy=multi_worker_mirrored'), None, 'needs a cluster'),
}


@pytest.mark.parametrize('argv, tf_config, part', USAGE_ERRORS.values(), ids=USAGE_ERRORS)
def test_usage_errors(tmp_path, argv, tf_config, part):
    done = run(tmp_path, *argv, tf_config=tf_config)
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert done.err.startswith('error: ') and part in done.err
    assert os.listdir(tmp_path) == []


UNKNOWN_FLAGS = {  # argv, what is said
    'a param of a built-in job': (
        ['--learning_rate=0.1'],
        '--learning_rate: no such flag. It is a param of mnist: write --param=learning_rate=0.1.',
    ),
    'in a flagfile': (
        ['--flagfile=u_flags'],
        '--hidden (u_flags, line 2): no such flag. If it is a param of u_light:job, write --param=hidden=9.',
    ),
    'a job that imports TensorFlow': (
        ['--job=u_heavy:job', '--units=3'],
        '--units: no such flag. If it is a param of u_heavy:job, write --param=units=3.',
    ),
    'no param': (['--qqq=3'], '--qqq: no such flag. See --help.'),
    'a flag of a similar name': (['--job=u_heavy:job', '--epoch=3'], '--epoch: no such flag (did you mean --epochs?).'),
}


@pytest.mark.parametrize('argv, said', UNKNOWN_FLAGS.values(), ids=UNKNOWN_FLAGS)
def test_an_unknown_flag_may_be_a_param(tmp_path, argv, said):
    (tmp_path / 'u_light.py').write_text(f'{LIGHT}\nopen("ran", "w").close()')  # code of a user is not run for this
    (tmp_path / 'u_heavy.py').write_text('import tensorflow')
    (tmp_path / 'u_flags').write_text('--job=u_light:job\n--hidden=9\n')
    done = run(tmp_path, *GIVEN, *argv)
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert done.err.startswith(f'error: {said}') and done.err.count('\n') == 1


@pytest.mark.parametrize('argv', [(), ('--dry_run',)], ids=['run', 'dry_run'])
def test_a_model_dir_of_another_run(tmp_path, argv):
    old = planning.make(trainer_config.parse(['trainer', *GIVEN, '--seed=2']), {})
    config_file.write(str(tmp_path / 'model'), config_file.resolved(old, {}))
    (tmp_path / 'model' / 'model.ckpt-5.index').touch()
    before = (tmp_path / 'model' / 'config.json').read_bytes()
    done = run(tmp_path, *GIVEN, *argv)
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert 'seed: 2 there, 1 now' in done.err
    assert sorted(os.listdir(tmp_path / 'model')) == ['config.json', 'model.ckpt-5.index']
    assert (tmp_path / 'model' / 'config.json').read_bytes() == before


@pytest.mark.parametrize('argv', [('--job=mnst',), ('--job=mnst', '--dry_run'), ('--job=u_mine:job', '--dry_run')])
def test_a_job_without_a_module_is_refused_at_once(tmp_path, argv):
    done = run(tmp_path, *GIVEN, *argv)
    assert (done.code, done.seen) == (64, [])


def test_a_model_dir_below_a_file_is_refused(tmp_path):
    (tmp_path / 'file').touch()
    done = run(tmp_path, '--model_dir=file/model', '--max_steps=5', '--dry_run')
    assert done.code == 64, done.err


def test_a_loop_that_cannot_train_the_job_is_refused(tmp_path):
    (tmp_path / 'u_light.py').write_text(LIGHT)
    assert run(tmp_path, *DRY, '--job=u_light:job').code == 0
    for loop in ('keras_fit', 'custom_loop'):
        done = run(tmp_path, *DRY, '--job=u_light:job', f'--loop={loop}')
        assert (done.code, done.seen) == (64, []) and f'--loop={loop}: job u_light:job has no make_model' in done.err
        with_ps = run(
            tmp_path, *DRY, f'--loop={loop}', tf_config=cluster('worker:0', chief=['a:1'], worker=['b:1'], ps=['p:1'])
        )
        assert (with_ps.code, with_ps.seen) == (64, []) and 'parameter servers' in with_ps.err


@pytest.mark.parametrize('flags, task', [(['--no_such=1'], 'trainer'), (['--job=no_such'], 'worker:1')])
def test_a_usage_error_stands_in_the_error_file(tmp_path, flags, task):
    error_file = tmp_path / 'error.json'
    done = run(
        tmp_path,
        *GIVEN,
        *flags,
        tf_config=cluster('worker:1', worker=['a:1', 'b:1']),
        ESTIMATOR_TRAINER_ERROR_FILE=str(error_file),
    )
    told = json.loads(error_file.read_text())
    assert (done.code, told['code'], told['task']) == (64, 64, task)
    assert f'error: {told["message"]}\n' == done.err

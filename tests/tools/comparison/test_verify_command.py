"""The command line: what is refused, how programs fail, and three real comparisons."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.comparison import verify_command, verify_results, verify_runs

ROOT = pathlib.Path(__file__).parents[3]
PROGRAM = pathlib.Path(__file__).with_name('program.py')
VERSIONS = {
    'python': '3.11.7',
    'tensorflow': '2.21.0',
    'tensorflow-estimator': '2.15.0',
    'tf-keras': '2.21.0',
    'numpy': '2.4.6',
}


def command(*argv):
    return [sys.executable, '-m', 'estimator_trainer', 'verify', *map(str, argv)]


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    return {**kept, 'PYTHONPATH': str(ROOT), **more}


def verify(folder, *argv, timeout=60, **more):
    return subprocess.run(
        command(*argv),
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture
def program(tmp_path):
    """Writes a program, and returns its path."""

    def write(text):
        (tmp_path / 'program.py').write_text(text)
        return tmp_path / 'program.py'

    return write


@pytest.mark.parametrize(
    'argv, said',
    [
        ([], 'error: name one program;'),
        (['nowhere.py'], 'error: nowhere.py: there is no such file'),
        (['program.py', 'another.py'], 'error: program.py another.py: name one program;'),
        (['program.py', '--from=/no/python'], 'error: --from=/no/python: there is no such program'),
        (['program.py', '--to=/bin/true'], 'error: --to=/bin/true: is not a Python'),
        (['program.py', '--to_program=gone.py'], 'error: --to_program=gone.py: there is no such file'),
        (['program.py', '--to_args="'], 'error: --to_args=": No closing quotation'),
        (['program.py', '--steps=0'], 'error: --steps=0: give 1 or more.'),
        (['program.py', '--html=nowhere/page.html'], 'error: --html=nowhere/page.html: its folder does not exist'),
        (['program.py', '--runs_dir=.'], 'error: --runs_dir=.: exists'),
        (['-m'], 'error: -m: give one module'),
    ],
)
def test_mistakes(tmp_path, program, argv, said):
    program('')
    done = verify(tmp_path, *argv)
    assert (done.returncode, done.stdout) == (exit_codes.USAGE, ''), done.stderr
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    'tf_config, said',
    [('{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}', 'names a cluster of 2 tasks'), ('[1]', 'cannot be read')],
)
def test_a_cluster_is_refused(tmp_path, program, tf_config, said):
    done = verify(tmp_path, program(''), TF_CONFIG=tf_config)
    assert done.returncode == exit_codes.USAGE and said in done.stderr


@pytest.mark.parametrize(
    'change, said',
    [
        (dict(tensorflow=None), 'TensorFlow is not installed there'),
        ({'tensorflow-estimator': None}, "-m pip install 'tensorflow-estimator==2.15.*'"),
        ({'tf-keras': None}, "-m pip install 'tf-keras==2.21.*'"),
        (dict(python='3.9.1'), 'from Python 3.10 on'),
    ],
)
def test_what_an_interpreter_needs(change, said):
    with pytest.raises(UsageError, match='^--to=python: ') as raised:
        verify_runs.check('to', verify_runs.Interpreter('python', {**VERSIONS, **change}))
    assert said in str(raised.value)


def test_an_interpreter_with_estimators_needs_nothing_of_ours():
    plain = verify_runs.Interpreter('python', {**VERSIONS, 'tensorflow': '2.15.1', 'tf-keras': None})
    verify_runs.check('from', plain)
    given = verify_runs.environment(
        {'PYTHONPATH': '/mine', 'TF_USE_LEGACY_KERAS': '1', 'PYTHONHASHSEED': '7'}, plain, 's'
    )
    assert given['PYTHONPATH'].split(os.pathsep) == [str(verify_runs._COMPAT / 'recorder'), '/mine']
    assert 'TF_USE_LEGACY_KERAS' not in given and given['PYTHONHASHSEED'] == '7'
    newest = verify_runs.environment({}, verify_runs.Interpreter('python', VERSIONS), 's')
    assert newest['PYTHONPATH'].endswith('compat/child') and newest['PYTHONHASHSEED'] == '0'
    current_folder = verify_runs.environment({'PYTHONPATH': f'{os.pathsep}/mine'}, plain, 's')['PYTHONPATH']
    assert current_folder.split(os.pathsep)[1:] == ['', '/mine']


@pytest.mark.parametrize('tensorflow, has_compat', [('1.15.5', False), ('2.15.1', True), ('2.21.0', True)])
def test_tf1_is_for_every_tensorflow_2(tensorflow, has_compat):
    """As `compat run --tf1`, on 2.15 as well; TensorFlow 1 runs the program as it is."""
    interpreter = verify_runs.Interpreter('python', {**VERSIONS, 'tensorflow': tensorflow})
    given = verify_runs.environment({}, interpreter, 's', tf1=True)
    assert given['PYTHONPATH'].endswith('compat/child') == has_compat == ('ESTIMATOR_TRAINER_TF1' in given)
    assert 'ESTIMATOR_TRAINER_TF1' not in verify_runs.environment({}, interpreter, 's')


def test_tf1_needs_a_python_of_ours():
    old = verify_runs.Interpreter('python', {**VERSIONS, 'tensorflow': '2.13.1', 'python': '3.9.1'})
    verify_runs.check('from', old)
    with pytest.raises(UsageError, match='^--from=python: --tf1 needs Python 3.10 or later'):
        verify_runs.check('from', old, tf1=True)


@pytest.mark.parametrize(
    'argv, tf1',
    [
        ([], (False, False)),
        (['--tf1'], (True, True)),
        (['--tf1', '--noto_tf1', '--to_program=program.py'], (True, False)),
        (['--to_tf1'], (False, True)),
    ],
)
def test_each_side_may_be_of_tensorflow_1(tmp_path, program, monkeypatch, argv, tf1):
    monkeypatch.chdir(tmp_path)
    program('')
    asked = []
    monkeypatch.setattr(
        verify_runs, 'ask', lambda flag, path, tf1: asked.append((flag, tf1)) or verify_runs.Interpreter(path, VERSIONS)
    )
    values, words = verify_command._program(['program.py', *argv])
    one, other = verify_runs.sides(values, words, (), None)
    assert (one.tf1, other.tf1) == tf1 and asked == [('from', tf1[0]), ('to', tf1[1])]
    facts = verify_results.facts((one, other))
    assert [fact.endswith('as compat run --tf1)') for fact in facts] == [*tf1]


def test_a_program_of_tensorflow_1_that_fails_is_told_of_tf1(tmp_path, program):
    text = 'def main():\n  import tensorflow as tf\n  tf.app.run()\nraise SystemExit(3)'
    said = 'program.py uses names of TensorFlow 1, such as tf.app.run (line 3): give --tf1.'
    done = verify(tmp_path, program(text))
    assert done.returncode == exit_codes.FAILED and done.stderr.splitlines()[-1].endswith(said)
    assert said not in verify(tmp_path, program('raise SystemExit(3)')).stderr


@pytest.mark.parametrize(
    'text, said',
    [
        ('print("last words")\nraise SystemExit(3)', ['error: --from: exit code 3', '  | last words']),
        ('print("nothing")', ['no Estimator made a step', '  | nothing']),
        (
            'import time\nprint("slow", flush=True)\ntime.sleep(600)',
            ['not done after 6 s (--timeout_secs)', '  | slow'],
        ),
    ],
)
def test_a_program_that_fails(tmp_path, program, text, said):
    done = verify(tmp_path, program(text), '--timeout_secs=6')
    assert (done.returncode, done.stdout) == (exit_codes.FAILED, ''), done.stderr
    for words in said:
        assert words in done.stderr
    assert 'Traceback' not in done.stderr


_SLEEPS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
with open(sys.argv[1], 'w') as ready:
    ready.write(f'{os.getpid()} {child.pid}')
time.sleep(600)
"""


@pytest.mark.parametrize(
    'signum, code', [(signal.SIGINT, exit_codes.INTERRUPTED), (signal.SIGTERM, exit_codes.TERMINATED)]
)
def test_a_signal_ends_the_program_and_its_children(tmp_path, program, signum, code):
    (tmp_path / 'temporary').mkdir()
    ready = tmp_path / 'ready'
    os.mkfifo(ready)
    process = subprocess.Popen(
        command(program(_SLEEPS), '--', ready),
        env=environment(TMPDIR=str(tmp_path / 'temporary')),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    try:
        pids = [int(pid) for pid in ready.read_text().split()]
        process.send_signal(signum)
        assert process.wait(30) == code
        until = time.monotonic() + 30
        while any(map(_runs, pids)):  # who was killed may still have to be scheduled
            assert time.monotonic() < until
            time.sleep(0.02)
        assert not list((tmp_path / 'temporary').iterdir())
    finally:
        process.kill()
        process.wait()


def _runs(pid) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_the_same_program_is_equal_and_its_checkpoints_continue(tmp_path):
    flags = ('--steps=3', '--json=v.json', '--html=v.html')
    done = verify(tmp_path, PROGRAM, *flags, '--', tmp_path / 'data', '{model_dir}', timeout=400)
    assert done.returncode == exit_codes.OK, done.stdout + done.stderr
    found = json.loads((tmp_path / 'v.json').read_text())
    assert found['verdict'] == 'equal' and len(found['comparisons']) == 3
    for comparison in found['comparisons']:
        rows = {row['what']: row for row in comparison['rows']}
        assert {row['verdict'] for row in rows.values()} == {'equal'}
        assert rows['losses']['values'] == 3 and rows['weights']['values'] > 3 and rows['slots']['values'] > 3
        assert all(rows[name]['values'] for name in ('inputs', 'metrics', 'predictions', 'exports', 'exported answers'))
    assert 0 < max(row['rounding'] for row in found['comparisons'][0]['rows']) < 1e-3
    assert '<svg' in (tmp_path / 'v.html').read_text()


OF_TENSORFLOW_1 = """
import sys
import tensorflow as tf
def model_fn(features, labels, mode):
    output = tf.layers.dense(features['x'], 1)
    loss = tf.losses.mean_squared_error(labels, output)
    train = tf.contrib.training.HParams(rate=0.1)
    optimizer = tf.train.GradientDescentOptimizer(train.rate)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()))
def main(argv):
    data = tf.estimator.inputs.numpy_input_fn({'x': numpy.ones([8, 2], 'f')}, numpy.ones([8, 1], 'f'), 4, shuffle=False)
    tf.logging.info('train')
    tf.estimator.Estimator(model_fn, argv[1]).train(data, steps=2)
import numpy
tf.app.run()
"""


@pytest.mark.slow
def test_a_program_of_tensorflow_1(tmp_path, program):
    flags = ('--tf1', '--steps=2', '--nocontinued', '--json=v.json')
    done = verify(tmp_path, program(OF_TENSORFLOW_1), *flags, '--', '{model_dir}', timeout=400)
    assert done.returncode == exit_codes.OK, done.stdout + done.stderr
    (found,) = json.loads((tmp_path / 'v.json').read_text())['comparisons']
    assert {row['what']: row['values'] for row in found['rows']}['losses'] == 2


@pytest.mark.slow
def test_a_learning_rate_that_is_one_percent_higher_is_found(tmp_path):
    mine = tmp_path / 'mine'
    changed = f'--to_args={tmp_path}/data {mine} --rate=0.0101'
    flags = ('--steps=2', '--nocontinued', changed)
    done = verify(tmp_path, PROGRAM, *flags, '--', tmp_path / 'data', mine, timeout=200)
    assert done.returncode == exit_codes.FAILED, done.stdout + done.stderr
    said = ' '.join(done.stdout.split())
    assert 'DIFFERENT: The runs part at step 1, in the weights' in said and '1.01 times' in said
    assert not mine.exists(), 'the model_dir of the program was written'

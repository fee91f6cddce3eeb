"""Runs real programs in the tests of real clusters: bounded, with their output on failure."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

REPOSITORY = pathlib.Path(__file__).parents[2]
CONFIGS = REPOSITORY / 'configs'


class Finished:
    """A program that has ended: `code`, and its `output` (stdout and stderr as one text)."""

    def __init__(self, code, output):
        self.code, self.output = code, output


def run(command, timeout=300, cwd=None, **environment) -> Finished:
    """Runs a command to its end; kills its whole process group at the timeout."""
    with start(command, cwd=cwd, **environment) as process:
        return finished(process, timeout=timeout)


def finished(process, timeout=300) -> Finished:
    """Waits for the end of a program of `start`."""
    output, _ = process.communicate(timeout=timeout)
    return Finished(process.returncode, output)


@contextlib.contextmanager
def start(command, cwd=None, **environment):
    """A command under way in a process group of its own, which is killed at the end.

    If the test fails meanwhile, pytest shows what the command has said and the test has not read.
    """
    env = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    env['PYTHONPATH'] = os.pathsep.join([str(REPOSITORY), env.get('PYTHONPATH', '')])
    env.update(environment, PYTHON=sys.executable)
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd or REPOSITORY,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
    )
    try:
        yield process
    except BaseException:
        _kill(process)
        show = threading.Thread(target=lambda: print(process.args, process.communicate()[0], sep='\n'), daemon=True)
        show.start()
        show.join(timeout=10)  # a process of another group may hold the pipe
        raise
    finally:
        _kill(process)
        process.wait()


def _kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def killed_after(secs, process):
    """Bounds the reading of its output: a process that is killed ends it."""
    timer = threading.Timer(secs, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hear_ctrl_c():
    """A test run in the background of a shell has SIGINT ignored, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def trainer(*flags, **kwargs) -> Finished:
    """Runs `python -m estimator_trainer`; fails the test unless it exits 0."""
    return checked(run([sys.executable, '-m', 'estimator_trainer', *flags], **kwargs))


def cluster(shape, *flags, **kwargs) -> Finished:
    """Runs `run_local_cluster.sh SHAPE -- FLAGS`; fails the test unless it exits 0."""
    return checked(run([REPOSITORY / 'run_local_cluster.sh', *shape, '--', *flags], **kwargs))


def checked(finished) -> Finished:
    assert finished.code == 0, finished.output
    return finished


def metrics(model_dir, kind='eval') -> list:
    """The lines of the run's metrics."""
    path = pathlib.Path(model_dir) / ('eval/metrics.jsonl' if kind == 'eval' else 'metrics.jsonl')
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(model_dir, timeout=300) -> dict:
    """Every float variable of the newest checkpoint, by name, read in another process."""
    script = (
        'import json, sys, tensorflow as tf\n'
        'reader = tf.train.load_checkpoint(sys.argv[1])\n'
        'names = [n for n, t in reader.get_variable_to_dtype_map().items() if t.is_floating]\n'
        'print("\\n" + json.dumps({n: reader.get_tensor(n).ravel().tolist() for n in names}))\n'
    )
    finished = checked(run([sys.executable, '-c', script, model_dir], timeout=timeout))
    return json.loads(finished.output.splitlines()[-1])


def trainer_process(model_dir, is_it) -> int:
    """The number of the trainer's process in that model_dir whose environment satisfies `is_it`."""
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            words, environ = (
                (folder / name).read_text(errors='replace').split('\0') for name in ('cmdline', 'environ')
            )
            if (
                words[1:3] == ['-m', 'estimator_trainer']
                and words[3:4] != ['cluster']  # its supervisor
                and f'--model_dir={model_dir}' in words
                and is_it(dict(line.split('=', 1) for line in environ if '=' in line))
            ):
                return int(folder.name)
    raise AssertionError(f'no such trainer in {model_dir}')


def worker_process(model_dir, index) -> int:
    """The process of a worker that has a TF_CONFIG."""
    place = {'type': 'worker', 'index': index}
    return trainer_process(model_dir, lambda environ: json.loads(environ['TF_CONFIG'])['task'] == place)


def processes_naming(text) -> list:
    """Command lines of running processes that name `text`, this one's aside."""
    found = []
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            line = (folder / 'cmdline').read_bytes().replace(b'\0', b' ').decode(errors='replace')
            if str(text) in line and int(folder.name) != os.getpid():
                found.append(line)
    return found

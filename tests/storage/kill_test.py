"""Kills a run in a store again and again, each time to go on with an empty scratch folder, and checks what was visible.

    python -m tests.storage.kill_test --times=50 --seed=1

After each change that any life made in the store, every checkpoint that has an index must be whole and of one save, by
the checksums of its tensors, and the file `checkpoint` must name one of them. The last life ends by itself; its weights
must be those of a run that nobody disturbed.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'end_to_end'))

import launch  # noqa: E402

from estimator_trainer.run_dir import bundle  # noqa: E402
from estimator_trainer.storage import names  # noqa: E402
from tests.storage import s3_server, servers  # noqa: E402

START_SECS = 120  # for a life to change something in the store


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--times', type=int, default=50)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--steps', type=int, default=6000)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    flags = (
        *('--job=mnist', '--deterministic', f'--max_steps={args.steps}', '--save_checkpoints_steps=25'),
        *('--keep_checkpoints=3', '--lost_peer_secs=5', '--eval_throttle_secs=5', '--report=off'),
    )
    with tempfile.TemporaryDirectory() as name, servers.moto(pathlib.Path(name)) as (url, environment):
        folder = pathlib.Path(name)
        command = [sys.executable, '-m', 'estimator_trainer', *flags, f'--model_dir={url}']
        for life in range(args.times):
            with launch.start(command, XDG_CACHE_HOME=str(folder / 'cache'), **environment) as process:
                pointer_of_life(folder, process)
                time.sleep(chance.uniform(0, 3))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            shutil.rmtree(folder / 'cache')
            print(f'life {life}: killed; the store names {newest(folder)}', flush=True)
        launch.checked(launch.run(command, timeout=1800, XDG_CACHE_HOME=str(folder / 'cache'), **environment))
        launch.checked(launch.run([*command[:-1], f'--model_dir={folder}/undisturbed'], timeout=1800))
        last = launch.weights(next(folder.glob('cache/estimator_trainer/*/run')), timeout=300)
        assert last == launch.weights(folder / 'undisturbed', timeout=300), 'the weights differ'
        print(f'the weights are those of an undisturbed run; {replay(folder)}')


def pointer_of_life(folder, process):
    """Waits until this life has sent a checkpoint file."""
    before = sum(name == names.POINTER for name, _ in s3_server.changes(folder))
    deadline = time.monotonic() + START_SECS
    size = 0
    while True:
        now = (folder / 'changes').stat().st_size
        if now != size:
            size = now
            if sum(name == names.POINTER for name, _ in s3_server.changes(folder)) > before:
                return
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, 'nothing was sent'
        time.sleep(0.1)


def newest(folder):
    return [names.named_by(body) for name, body in s3_server.changes(folder) if name == names.POINTER][-1]


def replay(folder) -> str:
    """Checks each state that was visible."""
    objects, states, again = {}, 0, 0
    mirror = folder / 'visible'
    mirror.mkdir()
    for name, body in s3_server.changes(folder):
        states += 1
        again += name.startswith('model.ckpt-again')
        if body is None:
            objects.pop(name, None)
        else:
            objects[name] = body
        checkpoint = names.checkpoint_of(name)
        if checkpoint:
            path = mirror / name
            path.unlink() if body is None and path.exists() else path.write_bytes(body or b'')
            if f'{checkpoint}.index' in objects:
                check(mirror / checkpoint)
        pointer = objects.get(names.POINTER)
        if pointer:
            assert f'{names.named_by(pointer)}.index' in objects, f'change {states}: {name}'
    return f'{states} visible states are whole, {again} of them while a checkpoint was replaced'


def check(prefix):
    index = bundle.read(str(prefix))
    assert bundle.missing_data(str(prefix), index) is None, prefix
    assert not bundle.wrong_checksum(str(prefix), index), prefix


if __name__ == '__main__':
    main()

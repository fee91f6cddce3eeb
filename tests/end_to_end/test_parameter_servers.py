"""Embedding tables in parts on parameter servers: how many servers there are may change."""

import json
import shutil
import sys

import launch
import pytest

from tests.chaos import files

pytestmark = pytest.mark.slow

JOBS = launch.REPOSITORY / 'docs' / 'examples'
TRAINED, MORE = 300, 20
TABLE_BYTES = (200 + 100) * 8 * 4  # of both tables
DIFFERENCES = """
import json, sys, numpy, tensorflow as tf
one, other = map(tf.train.load_checkpoint, sys.argv[1:])
found = [] if one.get_variable_to_shape_map() == other.get_variable_to_shape_map() else ['names and shapes']
found += [name for name in one.get_variable_to_shape_map()
          if not found and not numpy.array_equal(one.get_tensor(name), other.get_tensor(name))]
print()
print(json.dumps([sorted(one.get_variable_to_shape_map()), found]))
"""


def train(model_dir, last_step, *shape):
    flags = ['--job=embedding:job', f'--max_steps={last_step}', f'--model_dir={model_dir}', '--export=none']
    if shape:
        return launch.cluster([*shape, '--noevaluator'], *flags, cwd=JOBS)
    return launch.trainer(*flags, cwd=JOBS)


def test_another_number_of_servers_goes_on(tmp_path):
    """As it goes on, a run saves the step from which it does: the variables are those that it was given."""
    first = tmp_path / 'first'
    train(first, TRAINED, '--workers=2', '--ps=2')
    step = files.named(first)  # asynchronous workers may pass the last step
    prefix = f'model.ckpt-{step}'
    parts = [(first / f'{prefix}.data-0000{number}-of-00002').stat().st_size for number in (0, 1)]
    assert min(parts) >= TABLE_BYTES  # half of the tables, and as much of their optimizer's
    for name, shape in (('three', ['--workers=1', '--ps=3']), ('one', ['--workers=1', '--ps=1']), ('alone', [])):
        model_dir = shutil.copytree(first, tmp_path / name)
        train(model_dir, step + MORE, *shape)
        command = [sys.executable, '-c', DIFFERENCES, first / prefix, model_dir / prefix]
        names, differences = json.loads(launch.checked(launch.run(command, timeout=300)).output.splitlines()[-1])
        assert names == ['global_step', 'item_table', 'item_table/Adagrad', 'user_table', 'user_table/Adagrad']
        assert not differences
        assert launch.metrics(model_dir)[-1]['step'] >= step + MORE

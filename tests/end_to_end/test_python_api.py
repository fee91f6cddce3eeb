"""docs/api.md: its examples run one after the other, and it describes every public name."""

import os
import pathlib
import re
import subprocess
import sys

import estimator_trainer
from estimator_trainer.api import functions

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / 'docs' / 'api.md').read_text(encoding='utf-8')
BOUND_SECS = 400
AFTER = """
import sys
assert not {'tensorflow', 'keras', 'tf_keras'} & set(sys.modules)
assert result.step == 50 and result.why == 'max_steps' and result.best['accuracy'] > 0.5 and result.exit_code == 0
assert result.checkpoint.endswith('runs/mine/model.ckpt-50') and [*map(os.path.isdir, result.exports)] == [True, True]
assert len(losses) == 1 and metrics['global_step'] == 50 and os.path.isfile('runs/mine/job.pkl')
assert os.path.dirname(folder) == os.path.abspath('exported') and os.path.isfile(f'{folder}/saved_model.pb')
assert len(open(path).readlines()) == 21 and path == os.path.abspath('classes.csv')
"""


def test_the_examples_run(tmp_path):
    examples = re.findall(r'^```python\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / 'examples.py').write_text('\n'.join([*examples, 'import os', AFTER]))
    path = os.pathsep.join([str(ROOT), str(ROOT / 'docs' / 'examples')])
    done = subprocess.run(
        [sys.executable, 'examples.py'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert 'did you mean max_steps=…?' in done.stdout and 'trains from step 0 to 50' in done.stderr


def test_every_public_name_is_described():
    assert all(f'`{name}' in PAGE or f'{name}(' in PAGE for name in estimator_trainer.__all__)
    assert all(hasattr(estimator_trainer, name) for name in estimator_trainer.__all__)
    assert set(estimator_trainer.__all__) <= set(dir(estimator_trainer))


def test_the_package_imports_nothing_heavy():
    script = (
        'import sys, estimator_trainer\n'
        'assert not any(name.startswith("estimator_trainer.") for name in sys.modules)\n'
        'estimator_trainer.train, estimator_trainer.Result\n'
        'print({"tensorflow", "keras", "tf_keras", "numpy"} & set(sys.modules))\n'
    )
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True, timeout=60)
    assert done.stdout == 'set()\n', done.stderr


def test_a_model_is_told_by_its_folder(tmp_path):
    assert functions._kind_of(str(tmp_path)) == 'export'
    (tmp_path / 'config.json').touch()
    assert functions._kind_of(str(tmp_path)) == 'model_dir'

"""compat from the outside: when it does its work, `compat run`, child processes, Keras 3."""

import ast
import sys
import textwrap
import venv

import launch
import pytest

from estimator_trainer import compat

pytestmark = pytest.mark.slow
RESTORED = not compat.has_estimators()
RUN = [sys.executable, '-m', 'estimator_trainer.compat', 'run']


def write(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def python(tmp_path, text, *arguments, **environment):
    """What a program that imports estimator_trainer itself prints."""
    program = write(tmp_path, 'own_program.py', text)
    environment.setdefault('TF_USE_LEGACY_KERAS', '')  # pytest's own process has it set
    return launch.run([sys.executable, program, *arguments], timeout=300, cwd=tmp_path, **environment)


@pytest.mark.parametrize(
    'order',
    [
        'import estimator_trainer.compat; import tensorflow as tf',
        'import tensorflow as tf; import estimator_trainer.compat',
        'import tensorflow as tf, tensorflow.compat.v1 as v1; import estimator_trainer.compat as c; c.install()',
        'import estimator_trainer.compat; import tensorflow_estimator; import tensorflow as tf',
    ],
)
def test_before_and_after_tensorflow(tmp_path, order):
    finished = python(
        tmp_path,
        f"""
        {order}
        import sys, threading
        assert ('tensorflow_estimator' in sys.modules) == {'tensorflow_estimator' in order}
        found = []
        def touch():  # by many threads at once, none of them the main one
            from tensorflow import keras
            import tensorflow.compat.v1 as v1, tensorflow.compat.v2 as v2
            found.append((tf.estimator.Estimator, v1.estimator.Estimator, v2.estimator.Estimator,
                          keras.Model, v1.layers.dense, v1.nn.rnn_cell.LSTMCell))
        threads = [threading.Thread(target=touch) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert len(found) == 8 and len(set(found)) == 1, found
        from tensorflow.keras.layers import Dense
        from tensorflow.python.estimator.estimator import Estimator
        print('KERAS', Dense.__module__.split('.')[0], tf.keras.layers.Dense is Dense)
        """,
        TF_CPP_MIN_LOG_LEVEL='3',
    )
    assert finished.code == 0, finished.output
    assert finished.output.endswith(f'KERAS {"tf_keras" if RESTORED else "keras"} True\n')


@pytest.mark.skipif(not RESTORED, reason='TensorFlow 2.15 has Keras 2')
@pytest.mark.parametrize(
    'use', ['tf.keras.Model', 'import tensorflow.keras', 'tf.optimizers.Adam', 'tf.compat.v1.keras.Model']
)
def test_keras_3_in_use_is_one_clear_error(tmp_path, use):
    finished = python(
        tmp_path,
        f"""
        import tensorflow as tf
        {use}
        import estimator_trainer.compat
        """,
        TF_CPP_MIN_LOG_LEVEL='3',
    )
    assert finished.code == 1
    assert 'ImportError: tf.keras is Keras 3 in this process already' in finished.output
    assert 'compat run' in finished.output and 'TF_USE_LEGACY_KERAS=1' in finished.output


def test_one_switch_leaves_upstream_as_it_is(tmp_path):
    finished = python(
        tmp_path,
        """
        import sys
        from estimator_trainer import compat
        compat.install(fixes=False)
        import tensorflow as tf
        from tensorflow_estimator.python.estimator import early_stopping, estimator, exporter
        for function in (estimator.Estimator._train_with_estimator_spec_distributed,
                         estimator.Estimator.evaluate, exporter.BestExporter.export,
                         early_stopping.make_early_stopping_hook):
            assert 'estimator_trainer' not in function.__code__.co_filename, function
        compat.install(fixes=True)
        assert 'estimator_trainer' in exporter.BestExporter.export.__code__.co_filename
        try:
            compat.install(fixes=False)
        except RuntimeError as error:
            print('REFUSED', error)
        """,
        TF_CPP_MIN_LOG_LEVEL='3',
    )
    assert finished.code == 0 and 'REFUSED Estimators are mended already' in finished.output


class TestRun:
    """As Python itself would run it."""

    @pytest.mark.parametrize(
        'end',
        ['sys.exit(3)', 'sys.exit("bad")', '1 / 0', 'pass', 'os.kill(os.getpid(), 15)', 'raise KeyboardInterrupt'],
    )
    @pytest.mark.parametrize('module', [False, True])
    def test_all_as_python_does_it(self, tmp_path, end, module):
        (tmp_path / 'package').mkdir()
        write(tmp_path / 'package', '__init__.py', '')
        program = write(
            tmp_path / 'package',
            'program.py',
            f"""
            import os, sys
            print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__ and __spec__.name)
            print(sys.modules['__main__'].__dict__ is globals(), sys.flags.optimize, os.getcwd(), flush=True)
            {end}
            """,
        )
        arguments = ['-m', 'package.program'] if module else [program]
        arguments += ['--flag', 'a b', '-m']
        own = launch.run([sys.executable, *arguments], cwd=tmp_path)
        ours = launch.run([*RUN, *arguments], cwd=tmp_path)
        assert (ours.code, ours.output) == (own.code, own.output)

    def test_options_of_python_are_kept(self, tmp_path):
        program = write(tmp_path, 'program.py', 'import sys; print(sys.flags.optimize, sys.warnoptions)')
        command = [sys.executable, '-O', '-W', 'error::UserWarning', *RUN[1:], program]
        assert launch.run(command).output == "1 ['error::UserWarning']\n"

    def test_the_program_and_the_processes_it_starts_have_estimators(self, tmp_path):
        write(tmp_path, 'sitecustomize.py', 'import builtins; builtins.the_other_one = True')
        program = write(
            tmp_path,
            'program.py',
            """
            import multiprocessing, subprocess, sys
            assert the_other_one
            assert not any('child' in entry for entry in sys.path)

            def work(number):
                import tensorflow.compat.v1 as tf
                return number + len(tf.estimator.ModeKeys.TRAIN), the_other_one

            if __name__ == '__main__':
                with multiprocessing.get_context('spawn').Pool(1) as pool:
                    print('POOL', pool.apply(work, (1,)))
                print(subprocess.run([sys.executable, '-c',
                    "import tensorflow as tf; print('SUB', tf.estimator.ModeKeys.TRAIN, the_other_one)"],
                    stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout)
            """,
        )
        finished = launch.run(
            [*RUN, program],
            cwd=tmp_path,
            timeout=300,
            TF_CPP_MIN_LOG_LEVEL='3',
            PYTHONPATH=f'{tmp_path}:{launch.REPOSITORY}',
        )
        assert finished.code == 0, finished.output
        assert 'POOL (6, True)' in finished.output and 'SUB train True' in finished.output

    def test_nothing_happens_in_another_interpreter(self, tmp_path):
        """Such as a system tool that is a Python script, or a virtual environment of the program's own."""
        other = tmp_path / 'other'
        venv.create(other, symlinks=True)
        write(tmp_path, 'sitecustomize.py', 'import builtins; builtins.the_other_one = True')
        program = write(
            tmp_path,
            'program.py',
            """
            import subprocess, sys
            told = ('import sys; print("estimator_trainer" in sys.modules, the_other_one, '
                    'any("compat" in entry for entry in sys.path), sys.modules["sitecustomize"].__file__)')
            for python in sys.argv[1:]:
                subprocess.run([python, '-c', told], check=True, timeout=60)
            """,
        )
        finished = launch.run(
            [*RUN, program, other / 'bin' / 'python'], cwd=tmp_path, PYTHONPATH=f'{tmp_path}:{launch.REPOSITORY}'
        )
        assert finished.output == f'False True False {tmp_path}/sitecustomize.py\n'

    def test_what_runs_in_another_interpreter_has_the_syntax_of_any_python(self):
        tree = ast.parse((launch.REPOSITORY / 'estimator_trainer/compat/child/sitecustomize.py').read_text())
        newer = (ast.AnnAssign, ast.JoinedStr, ast.NamedExpr, ast.FunctionDef, ast.Match, ast.Starred)
        assert not [node for node in ast.walk(tree) if isinstance(node, newer)]

    def test_found_in_children_where_it_is_not_installed(self, tmp_path):
        """`compat run` from a checkout: its children do not have the checkout on sys.path."""
        program = write(
            tmp_path,
            'program.py',
            """
            import os, sys
            print('estimator_trainer.compat' in sys.modules, os.environ['ESTIMATOR_TRAINER_FIXES'])
            """,
        )
        script = (
            'import os, sys; sys.path.insert(0, sys.argv[1]); os.environ.pop("PYTHONPATH");'
            'from estimator_trainer.compat import __main__; __main__.run(sys.argv[2:], {"--no-fixes": []})'
        )
        finished = launch.run([sys.executable, '-c', script, launch.REPOSITORY, program], cwd=tmp_path)
        assert finished.output == 'True 0\n'

    @pytest.mark.parametrize('arguments', [[], ['-m'], ['-c', 'pass'], ['--no-fixes']])
    def test_without_a_program_it_says_how(self, arguments):
        finished = launch.run([*RUN, *arguments])
        assert finished.code == 64 and 'usage: python -m estimator_trainer.compat run' in finished.output


def test_it_needs_none_of_the_packages_that_only_the_trainer_needs(tmp_path):
    """Where somebody installs it with --no-deps beside a TensorFlow of their own."""
    write(
        tmp_path,
        'sitecustomize.py',
        """
        import sys

        class Missing:
            packages = ('tqdm', 'tensorflow_datasets', 'google_crc32c', 'pyarrow', 'array_record', 'tensorboard')

            def find_spec(self, name, path=None, target=None):
                if name.partition('.')[0] in self.packages:
                    raise ModuleNotFoundError(f'No module named {name!r}', name=name)

        sys.meta_path.insert(0, Missing())
        """,
    )
    program = write(
        tmp_path,
        'program.py',
        """
        import sys
        import tensorflow as tf

        def input_fn():
            return tf.data.Dataset.from_tensors(({'x': [[1.0]]}, [[2.0]])).repeat()

        estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column('x')])
        tf.estimator.train_and_evaluate(
            estimator, tf.estimator.TrainSpec(input_fn, max_steps=2), tf.estimator.EvalSpec(input_fn, steps=1)
        )
        print('STEP', estimator.get_variable_value('global_step'))
        """,
    )
    finished = launch.run([*RUN, program], timeout=300, cwd=tmp_path, PYTHONPATH=f'{tmp_path}:{launch.REPOSITORY}')
    assert finished.code == 0 and 'STEP 2' in finished.output, finished.output

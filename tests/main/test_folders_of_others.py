"""Commands get a folder with other people's files, also under names that they give themselves: none of them changes.

Those that need TensorFlow to come so far are not run: what looks at the folder is called. That nothing goes from a
cache, a scratch folder or the folder of a prediction is in the tests of these.
"""

import os

import pytest

from estimator_trainer.data import flights
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import config_file, files_of_others, ownership
from estimator_trainer.submit import submit_command
from estimator_trainer.tools.assess import assess_command
from estimator_trainer.tools.comparison import parity_command, verify_command
from estimator_trainer.tools.inspection import inspect_command
from estimator_trainer.tools.migrate import migrate_command
from estimator_trainer.tools.report import report_command
from estimator_trainer.tools.sweep import sweep_command, sweep_report
from tests.tools.report import model_dirs

DESCRIPTION = os.path.join(os.path.dirname(__file__), '../../deploy/mnist_two_workers.yaml')
OTHERS = {'thesis.tex': r'\begin{document}', 'data/part-1.csv': 'a\n1\n', 'model.bin.tmp': '0', '.hidden': '1'}


def filled(folder, **others):
    """A folder with files of others. What they are."""
    for name, text in {**OTHERS, **others}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return state(folder)


def state(folder) -> dict:
    return {
        os.path.join(at, name): (open(os.path.join(at, name), 'rb').read(), os.stat(os.path.join(at, name)).st_mtime_ns)
        for at, _, names in os.walk(folder)
        for name in names
    }


def after(code, folder, before, capsys) -> str:
    """The last line of what a command has said. All of the files are as they were."""
    assert before.items() <= state(folder).items()
    said = capsys.readouterr()
    assert code == 64, said
    return said.err.splitlines()[-1]


@pytest.mark.parametrize('name', ['report.html', 'page.html'])
def test_report(tmp_path, capsys, name):
    run, folder = model_dirs.cluster(tmp_path / 'run'), tmp_path / 'others'
    before = filled(folder, **{name: '<html>my own page</html>'})
    code = report_command.main([str(run), f'--out={folder}/{name}'])
    assert 'is no page of this program' in after(code, folder, before, capsys)
    code = report_command.main([str(run), f'--out={folder}'])
    assert 'is a folder; name a file' in after(code, folder, before, capsys)
    assert report_command.main([str(run), f'--out={folder}/new.html']) == 0
    assert report_command.main([str(run), f'--out={folder}/new.html']) == 0  # its own page is replaced
    new = folder / 'new.html'
    new.write_text(new.read_text().replace(files_of_others.PAGE_MARK, ''))
    assert report_command.main([str(run), f'--out={new}']) == 0  # one of an earlier version too
    assert state(folder).keys() - before.keys() == {f'{folder}/new.html'}


@pytest.mark.parametrize(
    'name, text', [('parity.html', '<html>'), ('parity.json', '{"mine": 1}'), ('parity.json', 'x')]
)
def test_parity(tmp_path, capsys, name, text):
    before = filled(tmp_path, **{name: text})
    code = parity_command.main(['--job=mnist', f'--out={tmp_path}'])
    assert 'is there already' in after(code, tmp_path, before, capsys)


@pytest.mark.parametrize('name, text', [('page.html', '<html>'), ('found.json', '{"mine": 1}'), ('found.json', '[2]')])
def test_reports_of_assess_inspect_and_verify(tmp_path, capsys, name, text):
    folder, program = tmp_path / 'others', tmp_path / 'program.py'
    before = filled(folder, **{name: text})
    program.write_text('import tensorflow as tf\nprint(tf.estimator)\n')
    report = f'--html={folder}/{name}' if name.endswith('html') else f'--json={folder}/{name}'
    commands = [(assess_command.main, program), (verify_command.main, program)]
    if name.endswith('json'):
        commands.append((inspect_command.main, model_dirs.cluster(tmp_path / 'run')))
    for main, path in commands:
        said = after(main([str(path), report]), folder, before, capsys)
        assert 'is there already' in said and report.partition('=')[0] in said
    new = report.replace(name, f'new-{name}')
    for _ in range(2):  # its own report is replaced
        assert assess_command.main([str(program), new]) in (0, 1)


def test_reports_never_go_into_a_pipe(tmp_path, capsys):
    """Nor is one read, which has no end."""
    program = tmp_path / 'program.py'
    program.write_text('import tensorflow as tf\n')
    os.mkfifo(tmp_path / 'pipe')
    for flag in ('--html', '--json'):
        assert assess_command.main([str(program), f'{flag}={tmp_path}/pipe']) == 64
        assert f'{flag}: {tmp_path}/pipe is no regular file' in capsys.readouterr().err


@pytest.mark.parametrize('engine, name', [('slurm', 'mnist-two-workers.sbatch'), ('kubernetes', 'job.yaml')])
def test_submit(tmp_path, capsys, engine, name):
    pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')
    folder = tmp_path / 'others'
    before = filled(folder, **{name: open(DESCRIPTION, encoding='utf-8').read()})
    code = submit_command.main([engine, 'render', f'{folder}/{name}', f'--out={folder}'])  # the description itself
    assert f'its {name} is not of this command' in after(code, folder, before, capsys)
    new = tmp_path / 'new'
    for _ in range(2):  # its own files are replaced
        assert submit_command.main([engine, 'render', DESCRIPTION, f'--out={new}']) == 0
    assert (new / name).read_text().count(submit_command._MARK) == 1


def test_migrate_and_verify_want_a_new_folder(tmp_path, capsys):
    before = filled(tmp_path)
    code = migrate_command.main([f'--model_dir={tmp_path}', f'--to={tmp_path}'])
    assert 'is not empty' in after(code, tmp_path, before, capsys)
    program = f'--program={__file__}'
    code = verify_command.main([program, f'--from={tmp_path}', f'--to={tmp_path}', f'--runs_dir={tmp_path}'])
    after(code, tmp_path, before, capsys)


@pytest.mark.parametrize('text', ['my notes\n', '{"loss": 1}\n', '\0\1'])
def test_metrics_of_katib(tmp_path, capsys, text):
    folder = tmp_path / 'others'
    before = filled(folder, **{'metrics.log': text})
    given = ['--param_space=learning_rate:log:0.1:1', f'--katib_metrics={folder}/metrics.log', '--metric=accuracy']
    code = sweep_command.main([*given, '--', f'--model_dir={tmp_path}/sweep', '--max_steps=1'])
    assert 'holds no metrics of Katib' in after(code, folder, before, capsys)


def test_metrics_of_katib_are_not_refused_a_second_time(tmp_path):
    file = tmp_path / 'metrics.log'
    for lines in ([], [{'step': 1, 'time': 5.5, 'my accuracy': 0.5}]):
        with open(file, 'w') as out:
            sweep_report.write_metrics(lines, out)
        sweep_report.refuse_other_metrics(str(file))
    for other in ('-', '', str(tmp_path / 'new')):
        sweep_report.refuse_other_metrics(other)


def test_flights(tmp_path, capsys):
    before = filled(tmp_path, **{'train-mine.txt': 'mine'})
    assert 'holds train-mine.txt already' in after(flights.main([f'--to={tmp_path}']), tmp_path, before, capsys)


@pytest.mark.parametrize(
    'name, text',
    [
        ('config.json', '{"architectures": ["GPT2"]}'),
        ('config.json', '[1]'),
        ('report.json', '{"title": "mine"}'),
        ('earlier_starts.json', '{"title": "mine"}'),
        ('report.json', '{"one": 1}\n{"two": 2}\n'),
        ('status.json', '"ok"'),
        ('training.json', '{"epochs": 3}'),
        ('metrics.jsonl', '{"loss": 1}\n'),
        ('eval/metrics.jsonl', '[]\n'),
        ('examples.json', '{"cats": ["a.png"]}'),
        ('examples.json', '[1]'),
    ],
)
def test_a_run_is_refused_where_files_of_others_have_its_names(tmp_path, name, text):
    before = filled(tmp_path, **{name: text})
    with pytest.raises(UsageError, match=f'--log_dir=.*: its {name} is not of a run'):
        with ownership.supervise(str(tmp_path), '--log_dir'):
            pass
    with pytest.raises(UsageError, match=name):
        config_file.refuse_another_run(str(tmp_path), {})
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    'name, text',
    [
        ('config.json', '{"job": "mnist", "params": {}}'),
        ('report.json', '{"attempts": [], "exit_code": 0}'),
        ('report.json', ''),
        ('training.json', '\0\0\0'),  # the machine lost its power
        ('metrics.jsonl', '{"step": 1, "lo'),
        ('metrics.jsonl', '{"step": 1}\n{"loss": 2}\n'),
        ('notes.json', '[]'),
        ('examples.json', '{"10": 40, "examples_beside": {"10": 8}}'),
    ],
)
def test_files_of_a_run_are_not_refused(tmp_path, name, text):
    filled(tmp_path, **{name: text})
    files_of_others.refuse_in_run(str(tmp_path))


def test_metrics_that_cannot_be_appended_to_are_refused_before_training(tmp_path):
    filled(tmp_path, **{'of_others.jsonl': '{"step": 1}\n'})
    (tmp_path / 'metrics.jsonl').symlink_to('of_others.jsonl')
    with pytest.raises(UsageError, match='its metrics.jsonl is a symbolic link'):
        files_of_others.refuse_in_run(str(tmp_path))
    (tmp_path / 'metrics.jsonl').unlink()
    (tmp_path / 'metrics.jsonl').mkdir()
    with pytest.raises(UsageError, match='its metrics.jsonl cannot be appended to'):
        files_of_others.refuse_in_run(str(tmp_path))

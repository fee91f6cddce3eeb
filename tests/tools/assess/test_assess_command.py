"""assess.command: the report, its files and its exit codes."""

import json

import pytest

from estimator_trainer.tools.assess import assess_command

PROGRAM = """\
import tensorflow as tf
tf.estimator.Estimator(f)
tf.placeholder(tf.int32)
tf.contrib.crf.crf_log_likelihood(x)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / 'train.py'
    path.write_text(PROGRAM, encoding='utf-8')
    return path


@pytest.mark.parametrize(
    'lines, flags, code',
    [
        (4, [], 1),
        (4, ['--fail_on=needs'], 1),
        (4, ['--fail_on=none'], 0),
        (3, [], 0),
        (3, ['--fail_on=needs'], 1),
        (2, ['--fail_on=needs'], 0),
    ],
)
def test_exit_codes(program, capsys, lines, flags, code):
    program.write_text(''.join(PROGRAM.splitlines(True)[:lines]), encoding='utf-8')
    assert assess_command.main([str(program), *flags]) == code
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith({4: f'blocked: {program}:4: tf.contrib.crf', 3: 'needs changes: 1 line', 2: 'runs'}[lines])


def test_the_report(program, capsys):
    assess_command.main([str(program)])
    shown = capsys.readouterr().out
    titles = [line for line in shown.splitlines() if line.endswith(':') and not line.startswith(' ')]
    assert titles == ['Blocks:', 'Needs `import tensorflow.compat.v1 as tf`:', 'Runs as it is:']
    assert max(map(len, shown.splitlines()[1:])) <= 120
    assert '1 file. Findings: 1 that block, 1 that need a change, 1 that run as they are' in shown


def test_the_verdict_points_to_notes(program, capsys):
    program.write_text('import tensorflow.compat.v1 as tf\ntf.estimator.tpu.TPUEstimator(f)', encoding='utf-8')
    assert assess_command.main([str(program), '--fail_on=needs']) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith('; read what stands at "here:"')
    program.write_text('import tensorflow as tf\ntf.matmul(x, y)', encoding='utf-8')
    assert assess_command.main([str(program)]) == 0
    assert capsys.readouterr().out.startswith('has nothing that `assess` knows')


def test_json(program, tmp_path):
    assess_command.main([str(program), f'--json={tmp_path}/report.json'])
    report = json.loads((tmp_path / 'report.json').read_text(encoding='utf-8'))
    assert [(one['line'], one['state']) for one in report['findings']] == [(2, 'runs'), (3, 'needs'), (4, 'blocks')]
    assert (report['lines_to_change'], report['keras_points'], report['files']) == (2, 12, 1)


def test_html(program, tmp_path):
    pytest.importorskip('jinja2')
    assess_command.main([f'--html={tmp_path}/report.html', str(program)])
    page = (tmp_path / 'report.html').read_text(encoding='utf-8')
    assert 'tf.contrib.crf.crf_log_likelihood' in page and '<script' not in page and 'http' not in page


@pytest.mark.parametrize(
    'argv, code, said',
    [
        ([], 64, 'error: name the programs or folders that are assessed.'),
        (['/nowhere.py'], 64, 'error: /nowhere.py: there is no such file or folder.'),
        (['{program}', '--fail_on=x'], 64, 'error: --fail_on=x'),
        (['--jason=x'], 64, 'error: --jason: no such flag (did you mean --json?).'),
        (['{program}', '--json=/nowhere/x.json'], 74, 'error: /nowhere/x.json: No such file or directory'),
    ],
)
def test_mistakes(program, capsys, argv, code, said):
    assert assess_command.main([each.format(program=program) for each in argv]) == code
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and error.startswith(said)

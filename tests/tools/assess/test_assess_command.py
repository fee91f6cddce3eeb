"""assess.command: the report, its files and its exit codes."""

import json

import pytest

from estimator_trainer.tools.assess import assess_command

PROGRAM = """\
import tensorflow as tf
tf.estimator.Estimator(f)
tf.placeholder(tf.int32)
tf.contrib.crf.crf_log_likelihood(x)
tf.mul(x, y)
tf.contrib.seq2seq.BasicDecoder(x)
"""
FIRST = {  # of so many lines
    6: 'blocked: {program}:6: tf.contrib.seq2seq.BasicDecoder: ',
    5: 'needs changes: 1 line with `python -m estimator_trainer.compat run --tf1`, 3 lines without it; nothing blocks',
    4: 'runs unchanged with `python -m estimator_trainer.compat run --tf1`; to run without it, change 2 lines',
    3: 'runs unchanged with `python -m estimator_trainer.compat run --tf1`; to run without it, change 1 line',
    2: 'runs as it is under `python -m estimator_trainer.compat run`',
}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / 'train.py'
    path.write_text(PROGRAM, encoding='utf-8')
    return path


@pytest.mark.parametrize(
    'lines, flags, code',
    [
        (6, [], 1),
        (6, ['--fail_on=needs'], 1),
        (6, ['--fail_on=none'], 0),
        (5, [], 0),
        (5, ['--fail_on=needs'], 1),
        (4, [], 0),
        (4, ['--fail_on=needs'], 1),
        (3, [], 0),
        (3, ['--fail_on=needs'], 1),
        (2, ['--fail_on=needs'], 0),
    ],
)
def test_exit_codes(program, capsys, lines, flags, code):
    program.write_text(''.join(PROGRAM.splitlines(True)[:lines]), encoding='utf-8')
    assert assess_command.main([str(program), *flags]) == code
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(FIRST[lines].format(program=program))


def test_the_report(program, capsys):
    assess_command.main([str(program)])
    shown = capsys.readouterr().out
    titles = [line for line in shown.splitlines() if line.endswith(':') and not line.startswith(' ')]
    assert titles == [
        'Blocks:',
        'Needs a change:',
        'Without `--tf1`: blocks:',
        'Without `--tf1`: needs `import tensorflow.compat.v1 as tf`:',
        'Runs as it is:',
    ]
    assert max(map(len, shown.splitlines()[1:])) <= 120
    said = ' '.join(shown.split())
    assert '1 file. Findings: 2 that block, 2 that need a change, 1 that run as they are' in said
    assert '2 of them run unchanged with `--tf1`' in said
    assert 'To run here: 2 lines to change with `--tf1`, 4 lines without it.' in said


def test_a_program_without_old_names_is_not_told_of_tf1(program, capsys):
    program.write_text('import tensorflow.compat.v1 as tf\ntf.mul(x, y)', encoding='utf-8')
    assess_command.main([str(program)])
    shown = capsys.readouterr().out
    assert shown.startswith('needs changes: 1 line; nothing blocks') and 'tf1' not in shown
    assert 'To run here: 1 line to change.' in shown


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
    assert [(one['line'], one['state'], one['with_tf1']) for one in report['findings']] == [
        (2, 'runs', False),
        (3, 'needs', True),
        (4, 'blocks', True),
        (5, 'needs', False),
        (6, 'blocks', False),
    ]
    assert (report['lines_to_change'], report['lines_with_tf1'], report['runs_with_tf1']) == (4, 2, False)
    assert report['files'] == 1 and report['keras_points'] > 12


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

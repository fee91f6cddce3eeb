"""The page: whole, self-contained and small, for runs of any length and with any file missing."""

import html.parser
import json
import math
import pathlib
import re
import shutil
import time
import types

import pytest

from estimator_trainer.tools import pages
from estimator_trainer.tools.report import report_command, summary
from tests.tools.report import model_dirs


class Page(html.parser.HTMLParser):
    """What a test looks at."""

    VOID = ('meta', 'br', 'link', 'img')

    def __init__(self, text):
        super().__init__()
        self.ids, self.open, self.plots, self.links, self.words = [], [], 0, [], []
        self.feed(text)
        assert not self.open
        assert len(set(self.ids)) == len(self.ids)
        assert 'http://' not in text.replace('http://www.w3.org/', '') and 'https://' not in text
        assert '<script' not in text and '<link ' not in text and '#0a0b' not in text
        assert text.count('<img') == text.count('<img src="data:image/png;base64,')

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs['id']] if 'id' in attrs else []
        self.links += [attrs['href']] if tag == 'a' else []
        self.plots += tag == 'svg'
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return ' '.join(' '.join(self.words).split())


def report(capsys, *argv) -> tuple[int, str]:
    code = report_command.main([str(each) for each in argv])
    out, err = capsys.readouterr()
    return code, out + err


def test_wrong_answers_are_shown(tmp_path, capsys):
    folder = model_dirs.cluster(tmp_path / 'run')
    examples = [
        {'position': 7, 'label': '3', 'answer': '<8>', 'probability': 0.987, 'png': 'iVBORw0KGgo='},
        {'position': 9, 'label': '1', 'answer': '7', 'probability': None, 'png': 'AAAA'},
        {'label': '1', 'png': '" onerror="x'},
        'foreign',
    ]
    wrong = {'step': 1200, 'evaluated': 1000, 'wrong': 21, 'examples': examples}
    (folder / 'eval' / 'wrong.json').write_text(json.dumps(wrong))
    assert report(capsys, folder)[0] == 0
    page = (folder / 'report.html').read_text()
    assert 'At step 1,200, 21 of 1,000 examples are taken for another class. These are the ones' in Page(page).text
    assert '3 taken for <8> (99%)' in Page(page).text and '1 taken for 7' in Page(page).text
    assert page.count('<img') == 2 and 'onerror' not in page


@pytest.mark.parametrize('content', ['[]', '{"step": 1}', '{"step": 1, "evaluated": 2, "wrong": "x", "examples": []}'])
def test_a_foreign_file_of_wrong_answers_is_left_out(tmp_path, capsys, content):
    folder = model_dirs.cluster(tmp_path / 'run')
    (folder / 'eval' / 'wrong.json').write_text(content)
    assert report(capsys, folder)[0] == 0
    assert 'Wrong answers' not in Page((folder / 'report.html').read_text()).text


def test_page_of_a_cluster(tmp_path, capsys):
    folder = model_dirs.cluster(tmp_path / 'run')
    code, said = report(capsys, folder)
    assert (code, said) == (0, f'{folder}/report.html: {(folder / "report.html").stat().st_size / 1e6:.2f} MB\n')
    page = Page((folder / 'report.html').read_text())
    assert page.plots == 8  # loss, accuracy, examples/s, timeline: each wide and narrow
    assert page.links == ['export/best/1700000013']
    for words in (
        'The run is done',
        'worker:1 was killed by SIGKILL',
        '--log_every_steps',
        '2.21.0',
        'steps that were lost',
    ):
        assert words in page.text
    assert sorted(path.name for path in folder.glob('report.html*')) == ['report.html']


def test_a_page_of_a_run_that_lives_says_of_when_it_is(tmp_path, capsys):
    folder = model_dirs.alone(tmp_path / 'run', steps=10)
    written = json.loads((folder / 'training.json').read_text())
    (folder / 'training.json').write_text(json.dumps({**written, 'state': 'training', 'time': time.time()}))
    assert report(capsys, folder)[0] == 0
    page = Page((folder / 'report.html').read_text())
    assert re.search(r'At 2\d\d\d-.*: the run trains\.', page.text)
    assert f'estimator-trainer report {folder}' in page.text


def test_page_of_one_step(tmp_path, capsys):
    folder = model_dirs.alone(tmp_path / 'run', steps=1, every=1)
    assert report(capsys, folder)[0] == 0
    assert Page((folder / 'report.html').read_text()).plots == 8


def test_comparison(tmp_path, capsys):
    folders = [model_dirs.alone(tmp_path / name / 'run', steps=steps) for name, steps in (('a', 100), ('b', 50))]
    out = tmp_path / 'compare.html'
    assert report(capsys, *folders, f'--out={out}')[0] == 0
    page = Page(out.read_text())
    assert page.plots == 8 and 'a/run' in page.text and '--max_steps 100 50' in page.text
    assert '--batch_size' not in page.text


def test_the_page_of_a_sweep(tmp_path, capsys):
    folders = [
        model_dirs.alone(tmp_path / f'trial-{number}', learning_rate=0.012345678 / number) for number in range(1, 8)
    ]
    best = {'trial': 7, 'value': 0.9, 'step': 100, 'params': {'learning_rate': 0.00176366}, 'export': '/exports/7'}
    model_dirs.write(tmp_path / 'sweep.json', {'metric': 'accuracy', 'best': best, 'trials': [{}] * 7})
    assert report(capsys, *folders, f'--out={tmp_path}/sweep.html')[0] == 0
    text = Page((tmp_path / 'sweep.html').read_text()).text
    assert f'Sweep {tmp_path.name}: 7 trials' in text
    assert (
        'The best is trial 7: accuracy 0.9000 at step 100, with learning_rate 0.001764. Its export: /exports/7.' in text
    )
    assert 'run --learning_rate trial-1 0.01235 trial-2 0.006173' in text  # a row for each run, not a column
    assert 'is done' not in text  # the table says it


def test_names_of_runs():
    assert summary.names(['/x/a', '/x/b']) == ['a', 'b']
    assert summary.names(['/x/a/run', '/x/b/run', '/y/a/run']) == ['x/a/run', 'x/b/run', 'y/a/run']
    assert summary.names(['/x/a', '/x/a']) == ['/x/a (1)', '/x/a (2)']


FILES = (
    'config.json',
    'training.json',
    'status.json',
    'report.json',
    'metrics.jsonl',
    'eval/metrics.jsonl',
    'export/best/best.json',
)
DAMAGE = {
    'missing': None,
    'empty': b'',
    'torn': b'{"attempts": [{"attempt": 1, "st',
    'list': b'[1, 2, "three"]',
    'binary': bytes(range(256)),
    'nonsense': b'{"attempts": [3, {"tasks": {}, "started": "x"}], "flags": 7, "params": [], "exit_code": "0",'
    b' "cluster": 3,'
    b' "state": [], "time": "now", "step": "x", "tasks": 1, "versions": "x", "metric": 1, "files": [],'
    b' "attempt_started": {}}',
}


@pytest.mark.parametrize('damage', DAMAGE)
def test_any_file_may_be_missing_or_damaged(tmp_path, capsys, monkeypatch, damage):
    monkeypatch.setattr(pages, 'as_svg', lambda drawn, name, label: f'<svg id="{name}"></svg>')  # it takes a second
    whole = model_dirs.cluster(tmp_path / 'whole')
    for number, name in enumerate((*FILES, 'all') if damage in ('torn', 'nonsense') else ('all',)):
        folder = tmp_path / f'run{number}'
        shutil.copytree(whole, folder)
        for path in FILES if name == 'all' else [name]:
            if DAMAGE[damage] is None:
                (folder / path).unlink()
            else:
                (folder / path).write_bytes(DAMAGE[damage])
        code, said = report(capsys, folder)
        assert code == 0, (name, said)
        page = Page((folder / 'report.html').read_text())
        if damage == 'torn' and name.endswith('.json'):
            assert f'{name} is damaged' in page.text


def test_a_checkpoint_that_is_damaged(tmp_path, capsys):
    folder = model_dirs.alone(tmp_path / 'run')
    (folder / 'model.ckpt-100.index').write_bytes(b'no table')
    assert report(capsys, folder)[0] == 0
    assert 'model.ckpt-100.index cannot be read' in Page((folder / 'report.html').read_text()).text


def test_a_page_is_bounded(tmp_path, capsys):
    """However many lines and evaluations there are."""
    folder = model_dirs.alone(tmp_path / 'run', steps=20_000, every=1)
    evaluation = '{"kind": "eval", "step": %d, "time": 1700000000.5, "accuracy": 0.%d, "loss": 0.3}\n'
    (folder / 'eval/metrics.jsonl').write_text(''.join(evaluation % (step, step) for step in range(1, 3000)))
    assert report(capsys, folder)[0] == 0
    assert (folder / 'report.html').stat().st_size < 1_000_000


@pytest.mark.parametrize(
    'argv, words',
    [
        ([], 'name the model_dir of a run'),
        (['nowhere'], 'nowhere: there is no such folder'),
        (['empty'], 'empty: holds no run'),
        (['empty', '--out=x', '--now'], '--now: no such flag'),
        (['empty', '--out=empty'], '--out=empty: is a folder'),
    ],
)
def test_mistakes(tmp_path, capsys, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    pathlib.Path('empty').mkdir()
    code, said = report(capsys, *argv)
    assert code == 64 and words in said and len(said.splitlines()) == 1


@pytest.mark.parametrize('values, best', [([math.nan, 2.0, 1.0], 2), ([1.0, math.nan, math.inf], None)])
def test_the_best_of_several_runs_is_a_finite_number(values, best):
    runs = [types.SimpleNamespace(config={}, best={}) for _ in values]
    found = summary._best(runs, ['loss'], [[value] for value in values])
    assert found == (frozenset() if best is None else {(best, 3)})


def test_what_is_not_installed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report_command, 'missing', lambda: ['jinja2'])
    assert report(capsys, tmp_path) == (64, 'error: the page needs jinja2: pip install jinja2 matplotlib\n')


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    folder = model_dirs.alone(tmp_path / 'run')
    code, said = report(capsys, folder, f'--out={tmp_path}/nowhere/report.html')
    assert code == 74 and 'No such file or directory' in said


def test_a_page_of_a_sweep_compares_its_trials(tmp_path, monkeypatch, capsys):
    for number in (1, 2, 10):
        model_dirs.alone(tmp_path / 'sweep' / f'trial-{number}')
    (tmp_path / 'sweep' / 'study.db').touch()
    (tmp_path / 'sweep' / 'logs').mkdir()
    written = []
    monkeypatch.setattr(report_command, 'write', lambda folders, page, *more: written.append((folders, page)) or 0)
    monkeypatch.chdir(tmp_path)
    assert report_command.main(['--model_dir=sweep']) == 0
    assert written == [([f'sweep/trial-{number}' for number in (1, 2, 10)], 'sweep/sweep.html')]
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'empty' / 'study.db').touch()
    assert report_command.main(['empty']) == 64
    assert 'none of whose trials has begun yet' in capsys.readouterr().err

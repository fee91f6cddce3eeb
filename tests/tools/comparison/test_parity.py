import html.parser
import json

import numpy as np
import pytest

from estimator_trainer.config import job_flags
from estimator_trainer.tools import bounded
from estimator_trainer.tools.comparison import parity_command, parity_results, parity_runs, report, value_differences
from estimator_trainer.tools.comparison.traces import LOSS, METRICS, UPDATES, WEIGHTS, Key, Record, Value


def record(name, *, losses=(2.0, 1.0), kernel=(1.0, 0.5, 0.25), bias=(0.0, 0.1, 0.2), evaluation=()):
    """A run of two steps with two variables, of which each argument gives the value at every step."""
    weights = [
        {'dense/bias': np.full(2, b, np.float32), 'dense/kernel': np.array([[k, -k]], np.float32)}
        for k, b in zip(kernel, bias)
    ]
    return of_steps(name, losses, weights, dict(evaluation))


def of_steps(name, losses, weights, evaluation=()):
    values = {}
    for step in range(max(len(losses) + 1, len(weights))):
        if 0 < step <= len(losses):
            values[Key(LOSS, 0, 0, step, 'loss')] = Value.of(losses[step - 1])
        for variable, array in weights[step].items() if step < len(weights) else ():
            values[Key(WEIGHTS, 0, 0, step, variable)] = Value.of(array)
    values |= {Key(METRICS, 0, 0, step, metric): Value.of(value) for metric, value in dict(evaluation).items()}
    return Record(name, values, set(weights[0]))


def conclusion(*records):
    return parity_results.conclusion(parity_results.pairs(records, 1e-5), 1e-5)


@pytest.mark.parametrize(
    'one, other, expected',
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([0.0], [0.0], 0),
        ([4.0, 0.0], [4.0, 1.0], 0.25),
        ([1.0], [np.nan], np.inf),
        ([np.nan], [np.nan], 0),
        ([1.0], [1.0, 1.0], np.inf),
        ([], [], 0),
    ],
)
def test_relative_difference(one, other, expected):
    assert value_differences.relative(one, other) == expected


def test_equal_runs():
    found = parity_results.pairs([record('a'), record('b'), record('c')], 1e-5)
    assert [(pair.one, pair.other) for pair in found] == [('a', 'b'), ('a', 'c'), ('b', 'c')]
    assert not any(pair.first or pair.sentences for pair in found)
    assert not any(pair.rows[thing].largest for pair in found for thing in (WEIGHTS, LOSS, UPDATES))
    assert parity_results.conclusion(found, 1e-5)[0].startswith('EQUAL')


def test_says_which_run_parts_first_and_where():
    early = record('early', kernel=(1.0, 0.6, 0.35), bias=(0.0, 0.1001, 0.2))
    late = record('late', bias=(0.0, 0.1, 0.3))
    _, first, then, why = conclusion(record('a'), late, early)
    assert first == (
        'first: early parts from a at step 1, in the weights: dense/kernel differs by 1.0e-01 relative. '
        '2 of 2 elements of dense/kernel differ.'
    )
    assert then.startswith('then: late parts from a at step 2, in the weights: dense/bias')
    assert 'the optimizer' in why


def test_a_loss_of_the_same_weights_parts_before_them():
    found = parity_results.pair(record('a'), record('b', losses=(1.0, 0.5), kernel=(1.0, 0.7, 0.5)), 1e-5)
    assert (found.first['step'], found.first['what'], found.first['variable']) == (1, 'loss', 'dense/kernel')
    assert found.sentences[0].startswith('b parts from a at step 1, in the loss, which is 2 in a and 1 in b')
    assert found.sentences[1].startswith('The weights before this step are the same. So its input or the computation')


@pytest.mark.parametrize(
    'change',
    [
        dict(losses=(2.0,)),
        dict(kernel=(1.0, 0.5), bias=(0.0, 0.1)),
        dict(losses=(2.0, np.nan)),
        dict(evaluation={'accuracy': 0.5}),
    ],
)
def test_what_is_missing_or_not_finite_is_not_equal(change):
    for both in ([record('a'), record('b', **change)], [record('b', **change), record('a')]):
        (found,) = parity_results.pairs(both, 1e-5)
        assert found.first['step'] == 2 and found.first['difference'] is None


def test_updates_show_what_weights_hide():
    one = record('a', kernel=(100, 100.001, 100.002))
    found = parity_results.pair(one, record('b', kernel=(100, 100.0012, 100.002)), 1e-5)
    update = found.rows[UPDATES]
    assert not found.first and update.largest > 0.05 and update.where.name == 'dense/kernel'


def test_runs_have_one_global_batch(tmp_path):
    runs = parity_runs.plan(parity_runs.LOOPS, list(parity_runs.LAYOUTS), str(tmp_path), 64, ['--job=mnist'])
    assert len({run.model_dir for run in runs}) == len({run.name for run in runs}) == 4 * len(job_flags.LOOPS)
    sizes = {run.name: [flag for flag in run.command if flag.startswith('--batch_size')] for run in runs}
    assert sizes['keras_fit, 1 process'] == ['--batch_size=64']
    assert sizes['keras_fit, 2 replicas'] == sizes['estimator, 2 workers'] == ['--batch_size=32']
    assert sizes['custom_loop, 2 batches a step'] == ['--batch_size=32']
    accumulating = [run.name for run in runs if '--accumulate_steps=2' in run.command]
    assert accumulating == [f'{loop}, 2 batches a step' for loop in parity_runs.LOOPS]


def test_page_is_whole_and_takes_nothing_from_elsewhere():
    found = [record('a <b>'), record('c', losses=(2.0, np.nan))]
    compared = parity_results.pairs(found, 1e-5)
    made = parity_results.report('parity & more', ['how'], found, compared, 1e-5)
    text = report.page(made)
    seen, curves = [], []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append(tag)
            assert not {'src', 'href', 'onload'} & {name for name, _ in attrs}
            assert all(value.startswith('#') for name, value in attrs if name == 'xlink:href')
            curves.extend(value for name, value in attrs if name == 'id' and value.startswith('curve-'))

    Reader().feed(text)
    assert curves == ['curve-0', 'curve-1'] and 'script' not in seen and 'link' not in seen
    assert 'a &lt;b&gt;' in text and 'parity &amp; more' in text and 'url(' not in text.replace('url(#', '')
    written = parity_results.to_json(made, found, compared, 1e-5)
    assert json.loads(json.dumps(written, allow_nan=False))['losses']['c'] == {'1': 2.0, '2': None}


def test_hints():
    assert 'a seed' in conclusion(record('a'), record('b', kernel=(1.5, 0.5, 0.25)))[-1]
    big = [{'conv': np.ones(100, np.float32)}] * 3
    tie = [*big[:2], {'conv': np.where(np.arange(100) < 3, 1.1, 1).astype(np.float32)}]
    one, other = of_steps('a', (), big), of_steps('b', (), tie)
    assert parity_results.pair(one, other, 1e-5).first['elements'] == (3, 100)
    assert conclusion(one, other)[-1] == parity_results.TIES


ONLY_ESTIMATOR = """
from estimator_trainer.jobs import Job

job = Job(model_fn=lambda features, labels, mode: None)
"""


@pytest.mark.parametrize(
    'flags, said',
    [
        (['--loops=keras_fit,custom_loop'], '--loops=keras_fit,custom_loop: job only:job has no make_model'),
        (['--layouts=one'], 'one run has nothing to be compared with'),
    ],
)
def test_a_job_that_only_estimator_can_train_is_refused_at_once(tmp_path, monkeypatch, capsys, flags, said):
    (tmp_path / 'only.py').write_text(ONLY_ESTIMATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parity_runs, 'start', lambda run, secs: pytest.fail('a run was started'))
    assert parity_command.main(['--job=only:job', *flags]) == 64
    assert said in capsys.readouterr().err


def test_of_a_job_that_only_estimator_can_train_the_layouts_are_compared(tmp_path, monkeypatch, capsys):
    (tmp_path / 'only.py').write_text(ONLY_ESTIMATOR)
    monkeypatch.chdir(tmp_path)
    started = []

    def start(run, secs):
        started.append(run.name)
        if len(started) == 3:
            raise bounded.RunFailed('enough')

    monkeypatch.setattr(parity_runs, 'start', start)
    assert parity_command.main(['--job=only:job']) == 1
    assert started == ['estimator, 1 process', 'estimator, 2 replicas', 'estimator, 2 workers']
    assert 'has no make_model, so only Estimator can train it: its layouts are compared' in capsys.readouterr().err


def test_an_update_that_differs_is_called_not_judged_where_it_stands():
    found = [record('a'), record('b')]
    made = parity_results.report('parity', [], found, parity_results.pairs(found, 1e-5), 1e-5)
    assert 'update (not judged)' in report.text(made).partition('Differences:\n')[2].splitlines()[0]

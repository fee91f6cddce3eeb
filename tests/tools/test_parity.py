import html.parser

import numpy as np
import pytest

from estimator_trainer.config import job_flags
from estimator_trainer.tools import bounded
from estimator_trainer.tools.parity import (
    parity_command,
    parity_page,
    parity_report,
    parity_runs,
    run_differences,
    run_list,
)


def trace(name, *, losses=(2.0, 1.0), kernel=(1.0, 0.5, 0.25), bias=(0.0, 0.1, 0.2), **more):
    """A run of two steps with two variables, of which each argument gives the value at every step."""
    weights = {
        step: {'dense/bias': np.full(2, b, np.float32), 'dense/kernel': np.array([[k, -k]], np.float32)}
        for step, (k, b) in enumerate(zip(kernel, bias))
    }
    return run_differences.RunValues(name, dict(enumerate(losses, start=1)), weights, **more)


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
    assert run_differences.relative(one, other) == expected


def test_equal_runs():
    found = run_differences.differences([trace('a'), trace('b'), trace('c')], 1e-5)
    assert [(pair.one, pair.other) for pair in found] == [('a', 'b'), ('a', 'c'), ('b', 'c')]
    assert all(pair.equal and pair.weight == pair.loss == pair.update == 0 for pair in found)
    assert parity_report.conclusion(found, 1e-5)[0].startswith('EQUAL')


def test_says_which_run_parts_first_and_where():
    early = trace('early', kernel=(1.0, 0.6, 0.35), bias=(0.0, 0.1001, 0.2))
    late = trace('late', bias=(0.0, 0.1, 0.3))
    found = run_differences.differences([trace('a'), late, early], 1e-5)
    _, first, then = parity_report.conclusion(found, 1e-5)
    assert first.startswith('first: early parts from a at step 1 in its weights, dense/kernel')
    assert then.startswith('then: late parts from a at step 2 in its weights, dense/bias')


def test_a_loss_of_the_same_weights_parts_before_them():
    found = run_differences.difference(trace('a'), trace('b', losses=(1.0, 0.5), kernel=(1.0, 0.7, 0.5)), 1e-5)
    assert (found.first.step, found.first.what, found.first.variable) == (1, 'loss', 'dense/kernel')


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
    assert not run_differences.difference(trace('a'), trace('b', **change), 1e-5).equal


def test_updates_show_what_weights_hide():
    found = run_differences.difference(
        trace('a', kernel=(100, 100.001, 100.002)), trace('b', kernel=(100, 100.0011, 100.002)), 1e-5
    )
    assert found.equal and found.update > 0.05 and found.update_variable == 'dense/kernel'


def test_runs_have_one_global_batch(tmp_path):
    runs = run_list.runs(run_list.LOOPS, list(run_list.LAYOUTS), str(tmp_path), 64, ['--job=mnist'])
    assert len({run.model_dir for run in runs}) == len({run.name for run in runs}) == 3 * len(job_flags.LOOPS)
    sizes = {run.name: [flag for flag in run.command if flag.startswith('--batch_size')] for run in runs}
    assert sizes['keras_fit, 1 process'] == ['--batch_size=64']
    assert sizes['keras_fit, 2 replicas'] == sizes['estimator, 2 workers'] == ['--batch_size=32']


def test_page_is_whole_and_takes_nothing_from_elsewhere():
    traces = [trace('a <b>'), trace('c', losses=(2.0, np.nan))]
    text = parity_page.page('parity & more', ['how'], traces, run_differences.differences(traces, 1e-5), 1e-5)
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


def test_hints():
    unseeded = run_differences.differences([trace('a'), trace('b', kernel=(1.5, 0.5, 0.25))], 1e-5)
    assert 'seeds' in parity_report.conclusion(unseeded, 1e-5)[-1]
    big = {step: {'conv': np.ones(100, np.float32)} for step in range(3)}
    tie = {**big, 2: {'conv': np.where(np.arange(100) < 3, 1.1, 1).astype(np.float32)}}
    found = run_differences.difference(
        run_differences.RunValues('a', {}, big), run_differences.RunValues('b', {}, tie), 1e-5
    )
    assert found.first.elements == (3, 100)
    assert parity_report.conclusion([found], 1e-5)[-1] == parity_report.TIES


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
    found = run_differences.differences([trace('a'), trace('b')], 1e-5)
    assert 'update (not judged)' in parity_report.table(found).splitlines()[0]

"""The flags, the order of the rounds and the tables of `python -m benchmarks`; nothing is measured here."""

import types

import pytest

from benchmarks import __main__ as front
from benchmarks import cases, entries, results, running


def case_of(*names):
    of_case = [entries.Entry(name, (name,)) for name in names]
    return cases.Case('a case', lambda steps, plain: of_case, 1)


def play(monkeypatch, case, speeds, rounds=2):
    """Measures the case; `speeds` has what each entry gives, or raises."""
    order = []

    def run(command, *args):
        order.append(command[0])
        speed = speeds[command[0]]
        if isinstance(speed, Exception):
            raise speed
        return {'steps_per_sec': speed}

    monkeypatch.setattr(running, 'run', run)
    args = types.SimpleNamespace(rounds=rounds, steps=0, plain='', timeout_secs=1)
    return order, *front.measured(case, args)


def test_the_entries_take_turns(monkeypatch):
    order, rounds, notes, failed = play(monkeypatch, case_of('a', 'b', 'c'), {'a': 1, 'b': 2, 'c': 3})
    assert order == ['a', 'b', 'c', 'a', 'b', 'c'] and not failed
    (made,) = front.tables(case_of('a', 'b', 'c'), rounds, notes).values()
    assert [row.ratio for row in made] == [1, 2, 3]


def test_what_is_skipped_or_fails_is_not_tried_again_and_only_a_failure_counts(monkeypatch):
    speeds = {'a': 1, 'b': running.Skipped('it is not installed'), 'c': running.Failed('ended with code 1\nall of it')}
    order, rounds, notes, failed = play(monkeypatch, case_of('a', 'b'), speeds)
    assert order == ['a', 'b', 'a'] and notes['b'] == 'it is not installed' and not failed
    order, rounds, notes, failed = play(monkeypatch, case_of('a', 'c'), speeds)
    assert order == ['a', 'c', 'a'] and notes['c'] == 'failed in round 1: ended with code 1' and failed


def test_a_case_that_is_not_there_is_refused(capsys):
    with pytest.raises(SystemExit):
        front.parse(['--only=cnn,xyz'])
    assert 'no case xyz' in capsys.readouterr().err


def test_every_case_has_entries_with_names_of_their_own():
    for case in cases.CASES.values():
        names = [entry.name for entry in case.entries(10, 'python2.15')]
        assert len(names) > 1 and len(names) == len(set(names))


def test_scripts_are_there():
    for name in cases.SCRIPTS:
        assert (running.ROOT / 'benchmarks' / f'{name}.py').is_file()


def test_a_case_takes_the_place_of_what_was_measured_before(tmp_path):
    pytest.importorskip('matplotlib')
    for load, name, speed in (('0.5', 'mirrored', 3), ('0.5', 'cnn', 2), ('0.7', 'cnn', 4)):
        rows = front.measure.rows([{'theirs': 1, 'ours': speed}], ['theirs', 'ours'])
        results.keep(name, {'cores': '2 of 2', 'load average': load}, {'steps_per_sec': rows}, tmp_path)
    page = (tmp_path / 'results.md').read_text()
    assert '- cores: 2 of 2\n' in page and '| ours   |       4 |  4.00 |' in page and '2.00' not in page
    assert page.index('CNN, one process') < page.index('load average: 0.7') < page.index('CNN, two replicas')
    assert page.index('CNN, two replicas') < page.index('load average: 0.5')
    assert '<svg' in (tmp_path / 'results.svg').read_text()

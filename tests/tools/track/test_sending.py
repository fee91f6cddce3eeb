"""A sender and a tracker that fails now and then: everything arrives, and as far as can be once."""

import contextlib
import sys

import pytest

from estimator_trainer.monitoring.trackers import HPARAMS, Target
from estimator_trainer.tools.track import adapters, sending
from estimator_trainer.tools.track.adapters import FINISHED, EntryDeleted, TrackerRefused, TrackerUnavailable
from tests.tools.track import a_run


class Notes:
    """A tracker that notes what it gets, and raises what `fails` says: name of a method -> exceptions, in turn."""

    def __init__(self, confirms=True, **fails):
        self.confirms, self.fails, self.made, self.got = confirms, fails, 0, []

    def __call__(self, target):
        self.made += 1
        return self

    def _fail(self, name):
        if self.fails.get(name):
            error = self.fails[name].pop(0)
            if error:
                raise error

    def begin(self, run, entry):
        self.got.append(('begin', entry))
        self._fail('begin')
        return entry or f'entry {self.made}'

    def lines(self, lines):
        self._fail('lines')
        self.got += [(each.kind, each.step) for each in lines]

    def export(self, folder, name):
        self._fail('export')
        self.got.append(name)

    def end(self, status, at):
        self._fail('end')
        self.got.append(status)


@pytest.fixture
def begin(tmp_path):
    """(tracker) -> a sender of tmp_path/run, its words in a list."""
    a_run.make(tmp_path / 'run')
    with contextlib.ExitStack() as stack:

        def make(tracker):
            stack.close()
            said = []
            sender = sending.sender(str(tmp_path / 'run'), Target(HPARAMS), said.append, make=tracker)
            return stack.enter_context(sender), said

        yield make


FIRST = [('train', 100), ('train', 200), ('train', 300), ('eval', 300), 'export/final/1700000300']


def test_each_thing_is_sent_once(tmp_path, begin):
    notes = Notes()
    sender, said = begin(notes)
    sender.send(None, 0)
    a_run.train(tmp_path / 'run', 400)
    sender.send(None, 0)
    sender.send(FINISHED, 0)
    assert notes.got == [('begin', ''), *FIRST, ('train', 400), FINISHED]
    assert said == ['tensorboard-hparams: the run is there as entry 1']
    again = Notes()
    sender, said = begin(again)
    a_run.train(tmp_path / 'run', 350, later=100)  # it was resumed from step 300
    sender.send(FINISHED, 0)
    assert again.got == [('begin', 'entry 1'), ('train', 350), FINISHED] and said == []


def test_nothing_is_sent_before_there_is_a_run(tmp_path, begin):
    notes = Notes()
    (tmp_path / 'run' / 'config.json').unlink()
    begin(notes)[0].send(FINISHED, 0)
    assert notes.got == []


@pytest.mark.parametrize('where', ['begin', 'lines', 'end'])
def test_what_was_not_confirmed_is_sent_again(begin, where):
    notes = Notes(**{where: [TrackerUnavailable('not here')]})
    sender, _ = begin(notes)
    with pytest.raises(TrackerUnavailable, match='not here'):
        sender.send(FINISHED, 0)
    sender.send(FINISHED, 0)
    assert [each for each in notes.got if each[0] != 'begin'] == [*FIRST, FINISHED]


def test_a_tracker_that_confirms_at_the_end_gets_everything_again(begin):
    notes = Notes(confirms=False, end=[TrackerUnavailable('not here')])
    sender, _ = begin(notes)
    with pytest.raises(TrackerUnavailable):
        sender.send(FINISHED, 0)
    sender.send(FINISHED, 0)
    sender.send(FINISHED, 0)
    assert notes.got == [('begin', ''), *FIRST, ('begin', 'entry 1'), *FIRST, FINISHED, ('begin', 'entry 1'), FINISHED]


def test_an_export_that_fails_holds_up_nothing_else(begin):
    notes = Notes(export=[TrackerUnavailable('no room')])
    sender, _ = begin(notes)
    with pytest.raises(TrackerUnavailable, match='export/final/1700000300: no room'):
        sender.send(FINISHED, 0)
    assert notes.got == [('begin', ''), *FIRST[:-1], FINISHED]
    sender.send(FINISHED, 0)
    assert notes.got[-2:] == [FIRST[-1], FINISHED]


def test_an_export_that_fails_has_nothing_sent_again(tmp_path, begin):
    notes = Notes(confirms=False, export=[TrackerUnavailable('no room'), TrackerUnavailable('no room')])
    sender, _ = begin(notes)
    for _ in range(2):
        with pytest.raises(TrackerUnavailable, match='no room'):
            sender.send(None, 0)
    a_run.train(tmp_path / 'run', 400)
    sender.send(FINISHED, 0)
    assert notes.got == [('begin', ''), *FIRST[:-1], ('train', 400), FIRST[-1], FINISHED]


def test_what_is_refused_is_left_out_and_said_once(tmp_path, begin):
    notes = Notes(lines=[TrackerRefused('a bad name'), TrackerRefused('a bad name')])
    sender, said = begin(notes)
    sender.send(FINISHED, 0)
    assert notes.got == [('begin', ''), FIRST[-1], FINISHED]
    assert said[1:] == [
        'WARNING: tensorboard-hparams: lines of metrics: the tracker refuses them: a bad name; the rest is sent'
    ]


def test_an_entry_that_was_deleted_begins_anew(begin):
    notes = Notes()
    sender, _ = begin(notes)
    sender.send(FINISHED, 0)
    notes = Notes(begin=[EntryDeleted()])
    sender, said = begin(notes)
    sender.send(FINISHED, 0)
    assert notes.got == [('begin', 'entry 1'), ('begin', ''), *FIRST, FINISHED]
    assert 'was deleted there; a new one begins' in said[0]


def test_an_entry_that_is_deleted_while_the_run_is_sent_begins_anew_at_once(tmp_path, begin):
    notes = Notes(lines=[None, None, EntryDeleted()])
    sender, _ = begin(notes)
    sender.send(None, 0)
    a_run.train(tmp_path / 'run', 400)
    sender.send(FINISHED, 0)
    assert notes.got == [('begin', ''), *FIRST, ('begin', ''), *FIRST[:3], ('train', 400), *FIRST[3:], FINISHED]
    sender, _ = begin(Notes(begin=[EntryDeleted(), EntryDeleted()]))
    with pytest.raises(TrackerUnavailable, match='it has no place for the run'):
        sender.send(FINISHED, 0)


def test_a_run_begun_anew_has_another_entry(tmp_path, begin):
    sender, _ = begin(Notes())
    sender.send(FINISHED, 0)
    (tmp_path / 'run' / 'metrics.jsonl').unlink()
    a_run.train(tmp_path / 'run', 1)
    notes = Notes()
    begin(notes)[0].send(None, 0)
    assert notes.got == [('begin', ''), ('train', 1), ('eval', 300), 'export/final/1700000300']


def test_a_run_whose_evaluations_were_removed_is_the_same_run(tmp_path, begin):
    begin(Notes())[0].send(FINISHED, 0)
    evaluations = tmp_path / 'run' / 'eval' / 'metrics.jsonl'
    lines = evaluations.read_text()
    evaluations.unlink()
    notes = Notes()
    begin(notes)[0].send(FINISHED, 0)
    evaluations.write_text(lines)
    begin(notes)[0].send(FINISHED, 0)
    assert notes.got == [('begin', 'entry 1'), FINISHED, ('begin', 'entry 1'), ('eval', 300), FINISHED]


def test_one_process_at_a_time(tmp_path):
    a_run.make(tmp_path / 'run')
    with sending.sender(str(tmp_path / 'run'), Target(HPARAMS), print):
        with pytest.raises(sending.AlreadyTracked, match='sends there already'):
            with sending.sender(str(tmp_path / 'run'), Target(HPARAMS), print):
                pass


def test_a_damaged_state_begins_anew(tmp_path, begin):
    sender, _ = begin(Notes())
    sender.send(FINISHED, 0)
    (tmp_path / 'run' / 'track' / 'tensorboard-hparams.json').write_text('{"key": 3, "files": [')
    notes = Notes()
    begin(notes)[0].send(FINISHED, 0)
    assert notes.got == [('begin', ''), *FIRST, FINISHED]


def test_a_call_without_an_end(monkeypatch, begin):
    class Hangs(Notes):
        def lines(self, lines):
            __import__('signal').pause()

    monkeypatch.setattr(sending, 'CALL_SECS', 0.05)
    with pytest.raises(TrackerUnavailable, match='no answer within 0.05 s'):
        begin(Hangs())[0].send(None, 0)


def test_a_library_that_cannot_be_imported(monkeypatch, begin):
    monkeypatch.setitem(sys.modules, 'tensorboard.plugins.hparams.summary_v2', None)
    with pytest.raises(TrackerUnavailable, match='summary_v2'):
        begin(adapters.make)[0].send(None, 0)

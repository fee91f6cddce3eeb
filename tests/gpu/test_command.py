"""python -m tests.gpu without a GPU, and its cases by name."""

import pytest

from tests.gpu import __main__ as command
from tests.gpu import cases, play


def test_without_a_gpu_it_says_so_and_lists_its_cases(monkeypatch, capsys):
    monkeypatch.setattr(command.gpus, 'visible', lambda environ: 0)
    assert command.main([]) == 0
    said = capsys.readouterr().out
    assert said.startswith('No GPU is here, so nothing was run.')
    assert all(f'\n{case.name} ' in said for case in cases.CASES)


def test_an_unknown_case_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(['--only=parity,speeds'])
    assert 'no case speeds; there are parity, ' in capsys.readouterr().err


def test_a_case_that_fails_is_told(monkeypatch, capsys):
    def fails(played):
        raise play.Failed('differ by 1')

    found = [cases.Case('one', 'first', lambda played: f'{played.number} devices'), cases.Case('two', 'second', fails)]
    monkeypatch.setattr(command, 'CASES', found)
    assert command.main(['--logical=3']) == 1
    assert capsys.readouterr().out.splitlines() == [
        '| one | first | 3 devices |',
        '| two | second | FAILED: differ by 1 |',
    ]
    found += [cases.Case('three', 'third', fails, gpus=4), cases.Case('four', 'fourth', fails, is_logical=False)]
    assert command.main(['--logical=3', '--only=three,four']) == 0


def test_a_difference_over_the_tolerance_fails():
    assert play.within(0, 0) == 'equal bit for bit'
    assert play.within(1e-7, 1e-6) == 'differ by 1e-07 (tolerance 1e-06)'
    for difference in (1e-5, float('nan')):
        with pytest.raises(play.Failed):
            play.within(difference, 1e-6)


def test_what_a_run_is_told(tmp_path):
    logical, real = play.Play(tmp_path, 2, True), play.Play(tmp_path, 2, False)
    assert logical.environ()['CUDA_VISIBLE_DEVICES'] == real.environ(on_cpu=True)['CUDA_VISIBLE_DEVICES'] == '-1'
    words = real.command(tmp_path, '--batch_size=8', replicas=2, cluster=('--workers=2',))
    assert words[3:6] == ['cluster', '--workers=2', '--'] and words.count('--batch_size=8') == 1
    assert '--num_replicas=2' in words and '--batch_size=32' not in words

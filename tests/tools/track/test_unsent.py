"""What is sent of a run, and what is left out."""

import json

import pytest

from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.track import adapters, sending
from estimator_trainer.tools.track.adapters import MetricsLine
from estimator_trainer.tools.track.sending import FileProgress


def write(path, *lines):
    with open(path, 'a') as file:
        for line in lines:
            file.write(line if isinstance(line, str) else json.dumps(line) + '\n')


def line(step, **values):
    return {'kind': 'train', 'step': step, 'time': 1000.0 + step, **values}


def steps(path, sent, kind='train'):
    return [each.step for block in sending.blocks(str(path), kind, sent) for each in block]


def test_lines_are_read_once_and_whole(tmp_path):
    path, sent = tmp_path / 'metrics.jsonl', FileProgress()
    assert steps(path, sent) == []
    write(path, line(1, loss=0.5), line(2, loss=None), '{"kind": "train", "st')
    found = [each for block in sending.blocks(str(path), 'train', sent) for each in block]
    assert found == [MetricsLine('train', 1, 1001.0, {'train/loss': 0.5}), MetricsLine('train', 2, 1002.0, {})]
    assert steps(path, sent) == []
    write(path, 'ep": 3, "time": 5}\n', '{cut\n', line(4), '[1]\n', {'step': 'x', 'time': 1})
    assert steps(path, sent) == [3, 4]
    assert sent.position == path.stat().st_size


def test_what_is_no_number_is_left_out(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    write(path, line(1, loss=1, name='x', curve=[1.0], good=True, far=float('inf')))
    ((found,),) = sending.blocks(str(path), 'eval', FileProgress())
    assert found.values == {'eval/loss': 1.0}


def test_a_long_run_is_thinned_out():
    """2,000 lines are all sent. Later ones are as far apart as 2,000th parts of the run so far."""
    last, sent = 0, []
    for number in range(1, 200_001):
        if sending.is_sent(number, last):
            last = number
            sent.append(number)
    assert sent[:2000] == list(range(1, 2001))
    assert len(sent) == pytest.approx(10_500, rel=0.05)
    assert max(after - before for before, after in zip(sent, sent[1:])) == 100


def test_the_last_line_is_sent_at_the_end(tmp_path):
    path, sent = tmp_path / 'metrics.jsonl', FileProgress()
    write(path, *(line(step) for step in range(1, 2003)))
    assert steps(path, sent) == [*range(1, 2001), 2002]
    write(path, line(2003))
    assert steps(path, sent) == []
    assert [each.step for each in sending.last_line(str(path), 'train', sent)] == [2003]
    assert sending.last_line(str(path), 'train', sent) == []


def test_every_evaluation_is_sent(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    write(path, *(line(step) for step in range(3000)))
    assert len(steps(path, FileProgress(), 'eval')) == 3000


def test_a_run_that_was_begun_anew(tmp_path):
    path, sent = tmp_path / 'metrics.jsonl', FileProgress()
    assert not sending.is_another(str(path), sent)
    write(path, line(1), line(2))
    steps(path, sent)
    write(path, line(3))
    assert not sending.is_another(str(path), sent)
    path.unlink()
    assert sending.is_another(str(path), sent)
    write(path, *(line(step, loss=0.1) for step in range(1, 9)))
    assert sending.is_another(str(path), sent)


def described(folder):
    run = adapters.described(str(folder), '', 'key', 1.0)
    return run.params, run.tags


def test_params_and_tags(tmp_path):
    config = {
        'job': 'mnist',
        'loop': 'estimator',
        'seed': 3,
        'global_batch_size': 64,
        'params': {'learning_rate': 0.1, 'decay': '3,7', 'classes': None},
        'flags': {'max_steps': 100, 'log_every_steps': 100, 'export': ['best'], 'model_dir': '/x', 'track': ['wandb']},
        'versions': {'tensorflow': '2.21.0'},
        'machine': {'cores': 2},
    }
    (tmp_path / 'config.json').write_text(json.dumps(config))
    params, tags = described(tmp_path)
    assert params == {
        'job': 'mnist',
        'loop': 'estimator',
        'seed': 3,
        'global_batch_size': 64,
        'learning_rate': 0.1,
        'decay': '3,7',
        'max_steps': 100,
        'export': 'best',
    }
    assert tags == {'model_dir': str(tmp_path), 'versions.tensorflow': '2.21.0', 'machine.cores': '2'}


def test_a_run_in_a_store_is_named_by_its_url(tmp_path):
    (tmp_path / 'config.json').write_text('{"flags": {"model_dir": "s3://bucket/first", "scratch_dir": "/fast"}}')
    params, tags = described(tmp_path)
    assert (params, tags) == ({}, {'model_dir': 's3://bucket/first'})


def test_exports_that_are_whole(tmp_path):
    for name in ('best/1700000000', 'final/1700000001', 'final/temp-1700000002'):
        (tmp_path / 'export' / name).mkdir(parents=True)
        (tmp_path / 'export' / name / 'saved_model.pb').touch()
    (tmp_path / 'export/final/1700000003').mkdir()
    assert [each.path for each in RunFolder(str(tmp_path)).exports if each.is_whole] == [
        'export/best/1700000000',
        'export/final/1700000001',
    ]


def test_a_line_that_is_finished_while_its_block_is_sent_is_sent_next(tmp_path):
    path, sent = tmp_path / 'metrics.jsonl', sending.FileProgress()
    lines = [json.dumps({'kind': 'train', 'step': step, 'time': 1.0, 'loss': 0.5}) + '\n' for step in (1, 2, 3)]
    path.write_text(lines[0] + lines[1][:20])
    steps = []
    for _ in range(2):
        for block in sending.blocks(str(path), 'train', sent):
            steps += [line.step for line in block]
            if steps == [1]:
                path.write_text(''.join(lines))
    assert steps == [1, 2, 3]

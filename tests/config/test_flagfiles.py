"""What a flagfile may hold, and which of two values counts."""

import os

import pytest

from estimator_trainer.config import declaration
from estimator_trainer.config.trainer_config import TrainerConfig, parse, parse_with_overrides
from tests.config.test_trainer_config import GIVEN, parsed, refused


def test_flagfiles(tmp_path):
    inner, outer = tmp_path / 'inner.flags', tmp_path / 'outer.flags'
    inner.write_text('--batch_size=7\n--seed=3\n--param=a=1\n')
    outer.write_text(f'# a comment\n--flagfile={inner}\n\n--seed=4\n--param=b=2\n')
    config = parsed(f'--flagfile={outer}', '--log_every_steps=6')
    assert (config.batch_size, config.seed, config.log_every_steps) == (7, 4, 6)
    assert config.param == ('a=1', 'b=2')
    assert parsed(f'--flagfile={outer}', '--seed=5').seed == 5  # later on the command line wins


def test_a_flagfile_may_begin_as_editors_of_windows_begin_a_text(tmp_path):
    (tmp_path / 'run.flags').write_bytes(b'\xef\xbb\xbf--seed=4\r\n--batch_size=7\r\n')
    config = parsed(f'--flagfile={tmp_path}/run.flags')
    assert (config.seed, config.batch_size) == (4, 7)


def test_a_line_of_a_flagfile_may_end_with_a_comment(tmp_path):
    file = tmp_path / 'run.flags'
    file.write_text('  # a comment\n// another\n--seed=3  # why\n--param=a=x#1\n--batch_size 7 # as well\n')
    config = parsed(f'--flagfile={file}')
    assert (config.seed, config.param, config.batch_size) == (3, ('a=x#1',), 7)


@pytest.mark.parametrize(
    'line, value',
    [
        ('--batch_size 7', {'batch_size': 7}),
        ('-batch_size \t 7', {'batch_size': 7}),
        ('--batch_size\t7', {'batch_size': 7}),
        ('--param a=x y', {'param': ('a=x y',)}),
        ('--param=a x=y', {'param': ('a x=y',)}),
        ('--deterministic false', {'deterministic': False}),
        ('--nodeterministic', {'deterministic': False}),
        ('--batch_size\n7', {'batch_size': 7}),
    ],
)
def test_a_line_of_a_flagfile_may_have_a_blank_in_place_of_the_equals_sign(tmp_path, line, value):
    (tmp_path / 'run.flags').write_text(line)
    config = parsed(f'--flagfile={tmp_path}/run.flags')
    assert {name: getattr(config, name) for name in value} == value


def test_words_of_a_command_line_have_none(tmp_path):
    assert '--batch_size 7: no such flag' in refused('--batch_size 7')


OVERRIDES = {  # the flagfile, argv, what holds, what is told
    'the command line wins within a pair': (
        '--epochs=20',
        ['--flagfile=f', '--max_steps=300'],
        {'max_steps': 300, 'epochs': None},
        ['--max_steps=300 (command line) overrides --epochs=20 (f, line 1)'],
    ),
    'before the flagfile as well': (
        '--epochs=20\n--seed=2',
        ['--max_steps=300', '--seed=3', '--flagfile=f'],
        {'max_steps': 300, 'epochs': None, 'seed': 3},
        [
            '--max_steps=300 (command line) overrides --epochs=20 (f, line 1)',
            '--seed=3 (command line) overrides --seed=2 (f, line 2)',
        ],
    ),
    'the later one of a pair wins': (
        '--save_checkpoints_steps=7\n--epochs=2',
        ['--flagfile=f', '--save_checkpoints_steps=8', '--save_checkpoints_secs=9'],
        {'save_checkpoints_steps': None, 'save_checkpoints_secs': 9},
        [
            '--save_checkpoints_steps=8 (command line) overrides --save_checkpoints_steps=7 (f, line 1)',
            '--save_checkpoints_secs=9 (command line) overrides --save_checkpoints_steps=8 (command line)',
        ],
    ),
    'no value takes a flag back': (
        '--epochs=20\n--eval_steps=3\n--stop_metric=loss\n--param=a=1',
        ['--flagfile=f', '--epochs=', '--max_steps=4', '--eval_steps=', '--stop_metric=', '--param=', '--param=b=2'],
        {'epochs': None, 'max_steps': 4, 'eval_steps': None, 'stop_metric': '', 'param': ('b=2',)},
        [
            '--epochs= (command line) overrides --epochs=20 (f, line 1)',
            '--eval_steps= (command line) overrides --eval_steps=3 (f, line 2)',
            '--stop_metric= (command line) overrides --stop_metric=loss (f, line 3)',
            '--param= (command line) overrides --param=a=1 (f, line 4)',
        ],
    ),
    'params go by their names': (
        '--param=a=1\n--param=b=1\n--epochs=1',
        ['--param=a=2', '--flagfile=f'],
        {'param': ('a=1', 'b=1', 'a=2')},
        ['--param=a=2 (command line) overrides --param=a=1 (f, line 1)'],
    ),
    'what is the same is not told': ('--epochs=2\n--seed=3', ['--flagfile=f', '--seed=3'], {'seed': 3}, []),
    'nor what the command line says twice': ('--epochs=2', ['--flagfile=f', '--seed=3', '--seed=4'], {'seed': 4}, []),
    'what an engine puts before the flags of the user': (
        '--epochs=2\n--intra_op_threads=3',
        ['--intra_op_threads=1', '--flagfile=f'],
        {'intra_op_threads': 3},
        [],
    ),
}


@pytest.mark.parametrize('file, argv, holds, told', OVERRIDES.values(), ids=OVERRIDES)
def test_which_flag_counts(tmp_path, monkeypatch, file, argv, holds, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'f').write_text(file)
    config, overrides = parse_with_overrides(['trainer', '--model_dir=m', *argv])
    assert {name: getattr(config, name) for name in holds} == holds
    assert list(overrides) == told


def test_of_two_flags_that_exclude_each_other_one_says_so():
    declared = {flag.name: flag.excludes for flag in declaration.declared(TrainerConfig) if flag.excludes}
    by_steps, by_secs = 'save_checkpoints_steps', 'save_checkpoints_secs'
    pairs = {'max_steps': ('epochs',), 'epochs': ('max_steps',), by_steps: (by_secs,), by_secs: (by_steps,)}
    assert declared == pairs


FLAGFILE_ERRORS = {
    'unknown flag': ('--batchsize=3', ['--batchsize', '--batch_size?']),
    'wrong type': ('--batch_size=x', ['--batch_size=x (', 'run.flags, line 2): a whole number']),
    'out of bounds': ('--batch_size=0', ['--batch_size=0 (', 'run.flags, line 2): at least 1']),
    'stray word': ('batch_size', ['batch_size (', 'run.flags, line 2)', '--name=value']),
    'no value': ('--batch_size', ['--batch_size (', 'run.flags, line 2): has no value']),
    'a switch': ('--nodry_run=x', ['--nodry_run=x (', 'run.flags, line 2)']),
    'no such flagfile': ('--flagfile=/no/such', ['--flagfile=/no/such (', 'run.flags, line 2): No such file']),
    'itself': ('--flagfile=~/run.flags', ['run.flags, line 2): the file includes itself']),
}


@pytest.mark.parametrize('line, parts', FLAGFILE_ERRORS.values(), ids=FLAGFILE_ERRORS)
def test_refused_in_a_flagfile(tmp_path, monkeypatch, line, parts):
    monkeypatch.setenv('HOME', str(tmp_path))
    file = tmp_path / 'run.flags'
    file.write_text(f'# a comment\n{line}\n')
    message = refused(*GIVEN, f'--flagfile={file}')
    assert all(part in message for part in parts), message


def test_a_flagfile_that_is_not_text_is_refused(tmp_path):
    file = tmp_path / 'run.flags'
    file.write_bytes(b'--job=\xff\n')
    assert '--flagfile' in refused(*GIVEN, f'--flagfile={file}')


def test_a_flagfile_with_a_byte_order_mark(tmp_path):
    """As editors of Windows write it."""
    (tmp_path / 'run.flags').write_bytes(b'\xef\xbb\xbf--max_steps=7\r\n--model_dir=m\r\n')
    config = parse(['trainer', f'--flagfile={tmp_path / "run.flags"}'])
    assert (config.max_steps, os.path.basename(config.model_dir)) == (7, 'm')

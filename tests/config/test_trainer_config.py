"""argv and flagfiles -> TrainerConfig, and every way in which they are refused."""

import dataclasses
import os
import tempfile

import pytest

from estimator_trainer.config import declaration
from estimator_trainer.config.trainer_config import HelpRequested, TrainerConfig, help_text, parse
from estimator_trainer.errors import UsageError

MODEL_DIR = os.path.join(tempfile.gettempdir(), 'no_such_model_dir')  # could be made, and is not
GIVEN = (f'--model_dir={MODEL_DIR}', '--max_steps=5')


def parsed(*argv):
    return parse(['trainer', *GIVEN, *argv])


def refused(*argv):
    with pytest.raises(UsageError) as caught:
        parse(['trainer', *argv])
    return str(caught.value)


def test_without_a_flag_its_default_holds():
    defaults = {flag.name: flag.default for flag in declaration.declared(TrainerConfig)}
    assert dataclasses.asdict(parsed()) == {**defaults, 'model_dir': MODEL_DIR, 'max_steps': 5}


def test_every_flag_is_in_a_group_and_a_field_of_the_config():
    grouped = [flag.name for members in declaration.groups(TrainerConfig).values() for flag in members]
    assert grouped == [field.name for field in dataclasses.fields(TrainerConfig)]


@pytest.mark.parametrize(
    'argv, name, value',
    [
        (['--batch_size=9'], 'batch_size', 9),
        (['--batch_size', '9'], 'batch_size', 9),
        (['--batch_size=8', '--batch_size=9'], 'batch_size', 9),
        (['--dry_run'], 'dry_run', True),
        (['--dry_run', '--nodry_run'], 'dry_run', False),
        (['--param=a=1', '--param=b=x,y'], 'param', ('a=1', 'b=x,y')),
        (['--export=best'], 'export', ('best',)),
        (['--export=final, best'], 'export', ('final', 'best')),
        (['--export=none'], 'export', ('none',)),
        (['--export='], 'export', ('none',)),
        (['--hosts=a,b:1,[::1]'], 'hosts', 'a,b:1,[::1]'),
        (['--roles=chief:1,worker:2'], 'roles', 'chief:1,worker:2'),
        (['--cluster_from=slurm'], 'cluster_from', 'slurm'),
    ],
)
def test_values(argv, name, value):
    assert getattr(parsed(*argv), name) == value


def test_epochs_alone():
    config = parse(['trainer', GIVEN[0], '--epochs=0.5'])
    assert (config.epochs, config.max_steps) == (0.5, None)


def test_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    config = parsed('--model_dir=~/runs', '--data_dir=~/data')
    assert (config.model_dir, config.data_dir) == (f'{tmp_path}/runs', f'{tmp_path}/data')


def test_folders_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = parsed('--model_dir=runs', '--data_dir=data')
    assert (config.model_dir, config.data_dir) == (f'{tmp_path}/runs', f'{tmp_path}/data')
    assert parsed('--model_dir=runs').data_dir == ''
    config = parsed('--model_dir=S3://bucket/my%20run/', '--data_dir=GS://bucket/data/')
    assert (config.model_dir, config.data_dir) == ('s3://bucket/my run', 'gs://bucket/data')


def test_the_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        parsed().seed = 2


def test_one_call_leaves_nothing_for_the_next():
    nothing = parsed()
    assert parsed('--param=a=1', '--export=best', '--seed=3', '--dry_run', '--eval_steps=2') != nothing
    assert parsed() == nothing
    assert parsed('--param=b=2').param == ('b=2',)
    refused(*GIVEN, '--param=c=3', '--seed=4', '--batch_size=x')
    assert parsed() == nothing


NO_DIR, NO_END = GIVEN[1:], GIVEN[:1]
ERRORS = {  # argv, what the message must hold
    'no model_dir': (NO_DIR, ['--model_dir']),
    'empty model_dir': ((*NO_DIR, '--model_dir='), ['--model_dir']),
    'model_dir is a file': ((*NO_DIR, f'--model_dir={__file__}'), [f'--model_dir={__file__}', 'file']),
    'model_dir below a file': ((*NO_DIR, f'--model_dir={__file__}/model'), [f'--model_dir={__file__}/model']),
    'model_dir in an unknown store': ((*NO_DIR, '--model_dir=hdfs://a/b'), ['--model_dir=hdfs://a/b', 's3://']),
    'one slash': ((*NO_DIR, '--model_dir=s3:/bucket/run'), ['--model_dir=s3:/bucket/run', 's3://bucket/run']),
    'no colon': ((*NO_DIR, '--model_dir=gs//bucket/run'), ['--model_dir=gs//bucket/run', 'gs://bucket/run']),
    'scratch_dir in a store': ((*GIVEN, '--scratch_dir=s3://b/c'), ['--scratch_dir=s3://b/c', 'of this machine']),
    'no end': (NO_END, ['--max_steps', '--epochs']),
    'epochs of 0': ((*NO_END, '--epochs=0'), ['--epochs=0']),
    'epochs below 0': ((*NO_END, '--epochs=-1'), ['--epochs=-1']),
    'epochs without end': ((*NO_END, '--epochs=inf'), ['--epochs=inf']),
    'epochs nan': ((*NO_END, '--epochs=nan'), ['--epochs=nan']),
    'unknown flag': ((*GIVEN, '--batch_sise=3'), ['--batch_sise', '--batch_size?']),
    'unknown flag of another kind': ((*GIVEN, '--qqqq'), ['--qqqq: no such flag.']),
    'wrong dash': ((*GIVEN, '--batch-size=3'), ['--batch-size', '--batch_size?']),
    'a value of a switch turned off': ((*GIVEN, '--nodry_run=3'), ['--nodry_run=3', 'write --nodry_run']),
    'an empty number': ((*GIVEN, '--batch_size='), ['--batch_size=: has no value', '64']),
    'a flag for a value': ((*GIVEN, '--batch_size', '--seed=1'), ['--batch_size: has no value']),
    'a flagfile without a name': ((*GIVEN, '--flagfile'), ['--flagfile: has no value']),
    'not a whole number': ((*GIVEN, '--batch_size=1.5'), ['--batch_size=1.5']),
    'not a number': ((*NO_END, '--epochs=few'), ['--epochs=few: a number is needed']),
    'not replicas': ((*GIVEN, '--num_replicas=all'), ['--num_replicas=all: a whole number or auto is needed']),
    'XLA of an Estimator': ((*GIVEN, '--xla'), ['--xla', '--loop=keras_fit']),
    'XLA and equal bits': ((*GIVEN, '--xla', '--loop=keras_fit', '--deterministic'), ['--xla with --deterministic']),
    'not a switch': ((*GIVEN, '--deterministic=maybe'), ['--deterministic', 'maybe']),
    'not a strategy': ((*GIVEN, '--strategy=tpu'), ['--strategy=tpu', 'multi_worker_mirrored']),
    'not an eval_strategy': ((*GIVEN, '--eval_strategy=tpu'), ['--eval_strategy=tpu', 'mirrored']),
    'not a progress': ((*GIVEN, '--progress=yes'), ['--progress=yes', 'auto']),
    'not a cluster_from': ((*GIVEN, '--cluster_from=nowhere'), ['--cluster_from=nowhere', 'slurm']),
    'no value': ((*GIVEN, '--batch_size'), ['--batch_size']),
    'not an export': ((*GIVEN, '--export=latest'), ['--export=latest', 'best,final or none']),
    'none and another export': ((*GIVEN, '--export=none,best'), ['--export=none,best']),
    'a stray word': ((*GIVEN, 'mnist'), ['mnist', '--name=value']),
    'flags after --': ((*GIVEN, '--', '--seed=2'), ['--seed=2']),
    'no such flagfile': ((*GIVEN, '--flagfile=/no/such.flags'), ['--flagfile', '/no/such.flags']),
    'seed too large': ((*GIVEN, '--seed=2147483648'), ['--seed=2147483648', '2**31']),
}


@pytest.mark.parametrize('argv, parts', ERRORS.values(), ids=ERRORS)
def test_refused(argv, parts):
    message = refused(*argv)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    'name, least',
    [
        *(
            (name, 1)
            for name in (
                'batch_size',
                'data_cache_mib',
                'num_replicas',
                'max_steps',
                'save_checkpoints_steps',
                'save_checkpoints_secs',
                'log_every_steps',
                'eval_batch_size',
                'eval_steps',
            )
        ),
        *(
            (name, 0)
            for name in (
                'keep_checkpoints',
                'in_memory_mb',
                'save_summary_steps',
                'seed',
                'eval_throttle_secs',
                'intra_op_threads',
                'inter_op_threads',
            )
        ),
    ],
)
def test_lower_bounds(name, least):
    assert getattr(parsed(f'--{name}={least}'), name) == least
    message = refused(*GIVEN, f'--{name}={least - 1}')
    assert f'--{name}={least - 1}:' in message and f'at least {least} ' in message


def test_the_largest_seed():
    assert parsed(f'--seed={2**31 - 1}').seed == 2**31 - 1


@pytest.mark.parametrize('flag', ['--help', '-help', '-h', '--helpfull'])
def test_help_comes_before_every_error(flag):
    with pytest.raises(HelpRequested) as caught:
        parse(['trainer', '--no_such_flag', flag])
    assert str(caught.value) == help_text()


def test_help_lists_every_group_and_flag():
    lines, text = help_text().splitlines(), ' '.join(help_text().split())
    for group, members in declaration.groups(TrainerConfig).items():
        assert f'{group}:' in lines
        for flag in members:
            assert [line.startswith(f'  --{flag.name}: ') for line in lines].count(True) == 1
            assert f'--{flag.name}: {flag.help} [' in text


@pytest.mark.parametrize('flag', declaration.declared(TrainerConfig), ids=lambda flag: flag.name)
def test_every_flag_says_what_holds_without_it(flag):
    assert flag.help.endswith('.')
    assert flag.shown_default or flag.repeated
    assert (flag.default is None) <= bool(flag.unset)
    assert flag.why or flag.unset or flag.repeated, 'a default has a reason'
    assert flag.admits(flag.default)
    assert not flag.choices or flag.default is None or flag.default in flag.choices
    assert flag.name.endswith('_secs') <= (flag.unit == 's')


def test_help_shows_defaults():
    (line,) = (line for line in help_text().splitlines() if line.startswith('  --keep_checkpoints: '))
    assert '5' in line.rpartition('[')[2]


@pytest.mark.parametrize(
    'flags, parts',
    [
        (['--loop=keras_fit', '--strategy=parameter_server'], ['--loop=keras_fit', 'parameter servers']),
        (['--steps_per_call=0'], ['--steps_per_call=0', 'auto or a number of at least 1']),
        (['--steps_per_call=fast'], ['--steps_per_call=fast', 'auto or a number']),
        (['--save_checkpoints_epochs=2'], ['--save_checkpoints_epochs=2', '--save_checkpoints_steps']),
        (['--loop=custom_loop', '--save_checkpoints_epochs=0'], ['at least 1']),
    ],
)
def test_flags_of_another_loop(flags, parts):
    with pytest.raises(UsageError) as caught:
        parse(['trainer', '--model_dir=run', '--max_steps=1', *flags])
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_model_dir_that_no_page_could_name_is_refused():
    assert 'is no UTF-8; name another folder' in refused('--model_dir=/data/nu\udcff', '--max_steps=5')


def test_a_relative_model_dir_in_a_folder_that_tensorflow_takes_for_a_pattern(tmp_path, monkeypatch):
    (tmp_path / 'exp[lr=0.1]').mkdir()
    monkeypatch.chdir(tmp_path / 'exp[lr=0.1]')
    with pytest.raises(UsageError, match=r'--model_dir=run, which is .*exp\[lr=0.1\]/run: TensorFlow takes'):
        parse(['trainer', '--model_dir=run', '--max_steps=1'])

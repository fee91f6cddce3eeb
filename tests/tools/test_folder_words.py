"""Every command that reads a run takes its folder as a word and as --model_dir."""

import pytest

from estimator_trainer.config import commands, flags
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.finished import evaluate, export
from estimator_trainer.tools.migrate import migrate_command
from estimator_trainer.tools.predict import predict_command

READERS = ('status', 'report', 'track', 'inspect', 'evaluate', 'export', 'predict', 'migrate')
FLAGS = (evaluate.EvaluateFlags, export.ExportFlags, predict_command.PredictFlags, migrate_command.MigrateFlags)


@pytest.mark.parametrize('given', [['nowhere'], ['--model_dir=nowhere'], ['--model_dir', 'nowhere']])
@pytest.mark.parametrize('name', READERS)
def test_both_forms(name, given, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = {'predict': ['--files=x.csv', '--out=x.parquet'], 'migrate': ['--to=new']}.get(name, [])
    assert commands.find(name)([*given, *more]) != 0
    said = capsys.readouterr().err
    assert 'nowhere' in said and 'no such flag' not in said and 'every argument is a flag' not in said


@pytest.mark.parametrize('config', FLAGS)
def test_the_word_is_the_flag(config):
    assert flags.parse_with_folder(config, ['x', 'run']) == flags.parse_with_folder(config, ['x', '--model_dir=run'])
    for words in (['a', 'b'], ['a', '--model_dir=b']):
        with pytest.raises(UsageError, match='name one folder'):
            flags.parse_with_folder(config, ['x', *words])

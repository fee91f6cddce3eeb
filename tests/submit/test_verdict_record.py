"""What the verdicts of an engine remember in a store."""

import pytest

obstore = pytest.importorskip('obstore')

from estimator_trainer import exit_codes  # noqa: E402
from estimator_trainer.storage import connection, names, store  # noqa: E402
from estimator_trainer.submit import verdict  # noqa: E402

URL = 's3://bucket/run'


@pytest.fixture
def opened(monkeypatch):
    """What verdicts open as the store of URL."""
    opened = store.Store(obstore.store.MemoryStore(), URL)
    monkeypatch.setattr(connection, 'open_for_reading', lambda url, environ: opened)
    return opened


def decide(tmp_path, attempt, code=193):
    (tmp_path / str(attempt)).mkdir(exist_ok=True)
    flags = [f'--model_dir={URL}', f'--folder={tmp_path}', f'--attempt={attempt}', '--job=slurm-7']
    return verdict.main([*flags, '--roles=worker:2', '--max_restarts=2', str(code)], now=lambda: 1000.0)


def test_restarts_are_counted_over_attempts_on_other_nodes(opened, tmp_path):
    codes = []
    for attempt in range(3):
        (tmp_path / f'node-{attempt}').mkdir()
        codes.append(decide(tmp_path / f'node-{attempt}', attempt))
    assert codes == [verdict.AGAIN, verdict.AGAIN, exit_codes.RESTARTS_SPENT]


def test_a_new_checkpoint_in_the_store_gives_them_back(opened, tmp_path):
    version, codes = None, []
    for attempt, step in enumerate((10, 20, 20, 20)):
        pointer = f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode()
        version = opened.write(names.POINTER, pointer, version)
        codes.append(decide(tmp_path, attempt))
    assert codes == [verdict.AGAIN] * 3 + [exit_codes.RESTARTS_SPENT]


def test_a_new_job_of_the_same_number_starts_anew(opened, tmp_path):
    for attempt in range(2):
        decide(tmp_path, attempt)
    assert decide(tmp_path, 0) == verdict.AGAIN


def test_the_record_is_no_part_of_the_run():
    assert not names.is_mirrored(names.record_of('slurm-7'))


@pytest.mark.parametrize(
    'attempt, code, expected', [(1, 193, verdict.AGAIN), (2, 193, 193), (0, exit_codes.USAGE, exit_codes.USAGE)]
)
def test_a_store_that_is_away_leaves_the_number_of_the_attempt(
    opened, tmp_path, monkeypatch, capsys, attempt, code, expected
):
    def away(self, name):
        raise store.StoreUnavailable(f'{URL} cannot be read: no answer')

    monkeypatch.setattr(store.Store, 'read', away)
    assert decide(tmp_path, attempt, code) == expected
    assert f'; {URL} cannot be read: no answer' in capsys.readouterr().err


def test_a_spoiled_record_is_none(opened, tmp_path):
    opened.write(names.record_of('slurm-7'), b'[', None)
    assert decide(tmp_path, 1) == verdict.AGAIN


def test_the_step_where_nothing_was_saved(opened):
    assert verdict.InStore('slurm-7', opened).saved_step() == 0

"""URLs, patience and exit codes: values in, decisions out."""

import errno
import math

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.config import urls
from estimator_trainer.errors import UsageError
from estimator_trainer.storage import child, names, send_speed
from estimator_trainer.storage.sender import Patience, RunEnd, ScratchFails
from estimator_trainer.storage.store import StoreRefused, StoreUnavailable


@pytest.mark.parametrize(
    'url',
    ['s3://bucket/run', 'gs://bucket/a/b/', 'az://container/run', 'abfs://c@account/run', 'S3://bucket/100%/50%zz'],
)
def test_urls(url):
    urls.check(url)


@pytest.mark.parametrize(
    'url, said',
    [
        ('s3://bucket', 'name a bucket and a folder'),
        ('s3:///run', 'name a bucket and a folder'),
        ('hdfs://host/run', 'is not known'),
        ('s3://bucket/a/../b', r'empty, \. or \.\.'),
        ('s3://bucket/a/%2e%2E/b', r'empty, \. or \.\.'),
        ('s3://bucket/a%2F%2Fb', r'empty, \. or \.\.'),
        ('s3://bucket//run', r'empty, \. or \.\.'),
        ('s3://bucket/a%0Ab', 'control character'),
        ('s3://bucket/%ff', 'no UTF-8'),
        ('file:///data/runs/a', 'by its path, such as /data/runs/a'),
        ('s3://bucket/run?endpoint=x', 'leave out what follows'),
        ('s3://bucket/run?', 'leave out what follows'),
        ('s3://name:word@bucket/run', 'leave it out'),
        ('s3://name@bucket/run', 'leave it out'),
    ],
)
def test_urls_that_name_no_folder(url, said):
    with pytest.raises(UsageError, match=said) as caught:
        urls.check(url)
    assert 'word@' not in str(caught.value)


@pytest.mark.parametrize(
    'written, normal, name',
    [
        ('S3://Bucket/run/', 's3://Bucket/run', 'run'),
        ('s3://bucket/a%20b', 's3://bucket/a b', 'a b'),
        ('s3://bucket/a b/l\u00e4uf', 's3://bucket/a b/l\u00e4uf', 'a b/l\u00e4uf'),
        ('s3://bucket/l%C3%A4uf', 's3://bucket/l\u00e4uf', 'l\u00e4uf'),
        ('s3://bucket/100%/50%zz', 's3://bucket/100%/50%zz', '100%/50%zz'),
        ('s3://bucket/100%25/x%2520y%3F', 's3://bucket/100%/x%2520y%3F', '100%/x%20y?'),
        ('gs://bucket/', 'gs://bucket', ''),
        ('abfss://c@account.dfs.core.windows.net/a%2Cb/', 'abfss://c@account.dfs.core.windows.net/a,b', 'a,b'),
    ],
)
def test_one_folder_has_one_url(written, normal, name):
    assert urls.normal(written) == urls.normal(normal) == normal
    assert urls.name(written) == urls.name(normal) == name
    assert urls.join(urls.bucket(normal), name).rstrip('/') == normal
    assert urls.scratch_dir(written, {}) == urls.scratch_dir(normal, {})


@pytest.mark.parametrize('value', ['', '/runs/a%20b/', 'runs/', 's3://bucket/a%20b?x', 's3://bucket/%ff/'])
def test_what_is_no_such_url_stays_as_it_is(value):
    assert urls.normal(value) == value


def test_each_url_has_a_scratch_folder_of_its_own():
    one, two = (urls.scratch_dir(url, {'XDG_CACHE_HOME': '/cache'}) for url in ('s3://b/a-b', 's3://b/a/b'))
    assert one != two and one.startswith('/cache/estimator_trainer/s3-b-a-b-')
    assert urls.scratch_dir('s3://b/run', {}, '/fast/disk') == '/fast/disk'
    assert urls.scratch_dir('s3://b/run', {}, '/fast/disk', 'worker-1') == '/fast/disk/worker-1'


def test_a_store_that_is_away_is_waited_for_and_warned_of_ever_more_rarely():
    patience = Patience(max_unpushed_secs=100)
    said = [now for now in range(0, 100, 5) if patience.failed(StoreUnavailable('no answer'), now)[0]]
    assert said == [10, 20, 40, 80]
    warning, verdict = patience.failed(StoreUnavailable('no answer'), 100)
    assert verdict.code == exit_codes.NOT_SENT and 'no answer' in verdict.why


def test_a_store_that_is_back_starts_anew():
    patience = Patience(max_unpushed_secs=100)
    patience.failed(StoreUnavailable('no answer'), 0)
    assert patience.worked(5) is None  # nobody was told of it
    patience.failed(StoreUnavailable('no answer'), 10)
    assert patience.failed(StoreUnavailable('no answer'), 60)[0]
    assert 'answers again' in patience.worked(70)
    assert patience.failed(StoreUnavailable('no answer'), 150) == (None, None)


def test_a_store_that_refuses_ends_the_run_soon():
    patience = Patience(max_unpushed_secs=3600)
    assert patience.failed(StoreRefused('AccessDenied'), 0)[1] is None
    assert patience.failed(StoreRefused('AccessDenied'), 60)[1].code == exit_codes.CANNOT_WRITE


def test_one_refusal_after_an_outage_does_not_end_the_run():
    patience = Patience(max_unpushed_secs=3600)
    for now in (0, 50, 100):
        assert patience.failed(StoreUnavailable('no answer'), now)[1] is None
    assert patience.failed(StoreRefused('AccessDenied'), 110)[1] is None
    assert patience.failed(StoreUnavailable('no answer'), 150)[1] is None
    for now in (160, 219):
        assert patience.failed(StoreRefused('AccessDenied'), now)[1] is None
    assert patience.failed(StoreRefused('AccessDenied'), 220)[1].code == exit_codes.CANNOT_WRITE


def test_an_error_of_the_folder_after_a_long_refusal_does_not_end_the_run():
    patience = Patience(max_unpushed_secs=3600, refused_secs=math.inf)  # as of a worker, which waits for its chief
    for now in (0, 100):
        assert patience.failed(StoreRefused('AccessDenied'), now)[1] is None
    stale = ScratchFails(OSError(errno.ESTALE, 'Stale file handle'))
    assert patience.failed(stale, 101)[1] is None
    assert patience.failed(stale, 161)[1].code == exit_codes.FILES_AWAY


def test_a_store_that_is_away_and_refuses_in_turn_ends_the_run_when_its_time_is_up():
    patience = Patience(max_unpushed_secs=100)
    assert patience.failed(StoreUnavailable('no answer'), 0)[1] is None
    assert patience.failed(StoreRefused('AccessDenied'), 99)[1] is None
    assert patience.failed(StoreUnavailable('no answer'), 100)[1].code == exit_codes.NOT_SENT


@pytest.mark.parametrize(
    'trainer, all_sent, verdict, code',
    [
        (0, True, None, 0),
        (143, True, None, 143),
        (0, False, None, exit_codes.NOT_SENT),
        (143, False, None, exit_codes.NOT_SENT),
        (70, False, None, 70),  # it would fail again
        (143, False, RunEnd(exit_codes.CANNOT_WRITE, ''), exit_codes.CANNOT_WRITE),
        (143, False, RunEnd(exit_codes.MODEL_DIR_TAKEN, ''), exit_codes.MODEL_DIR_TAKEN),
        (70, False, RunEnd(exit_codes.MODEL_DIR_TAKEN, ''), exit_codes.MODEL_DIR_TAKEN),
    ],
)
def test_exit_codes(trainer, all_sent, verdict, code):
    assert child.exit_code(trainer, all_sent, verdict) == code


def test_an_evaluator_that_could_fetch_nothing_says_so():
    starved = RunEnd(exit_codes.FILES_AWAY, 'no answer')
    assert child.exit_code(exit_codes.TERMINATED, True, None, starved) == exit_codes.FILES_AWAY
    assert child.exit_code(exit_codes.FAILED, True, None, starved) == exit_codes.FAILED


def test_the_trainer_gets_a_part_of_the_grace_period():
    assert [send_speed.child_grace_secs(secs) for secs in (1, 2, 25, 100)] == [1, 1, 15, 60]


def test_the_first_checkpoint_says_how_long_it_took_to_send_and_a_slow_one_is_warned_of():
    said = send_speed.SendSpeed(grace_secs=25, to_save=15)
    assert said.of(send_speed.SentCheckpoint('model.ckpt-1', 4_000_000, 0.5)) == (
        'model.ckpt-1 was sent in 0.5 s (4.0 MB); SIGTERM leaves at least 10 s for that',
        False,
    )
    assert said.of(send_speed.SentCheckpoint('model.ckpt-2', 4_000_000, 0.5)) == (None, False)
    line, is_warning = said.of(send_speed.SentCheckpoint('model.ckpt-3', 4_000_000, 40))
    assert is_warning and '--grace_secs=100 would be enough' in line
    assert said.of(send_speed.SentCheckpoint('model.ckpt-4', 4_000_000, 45)) == (None, False)  # it was said
    assert said.of(send_speed.SentCheckpoint('model.ckpt-5', 4_000_000, 90))[1]


def test_what_sigterm_can_send_is_told_by_the_speed_of_the_fetch():
    assert send_speed.expectation(25, 15, 0, 0.1) == 'after SIGTERM 15 s to save and 10 s to send'
    assert send_speed.expectation(25, 15, 50_000_000, 5).endswith(
        '10 s to send, about 100 MB at the speed of the fetch'
    )


@pytest.mark.parametrize(
    'name',
    [
        *(
            '.trainer.lock',
            'eval/.lock',
            '.cluster.lock',
            'config.json.12.tmp',
            'export/best/temp-1700000000/saved_model.pb',
        ),
        *(
            'model.ckpt-1_temp/part-00000-of-00002.index',
            'model.ckpt-1.index.tempstate9',
            'temp-own-0f/a',
            'damaged/model.ckpt-1.index',
            'index/files',
        ),
        *('tmp_worker_1/checkpoint', '.trainer.lease', '.evaluator.lease', '.probe-12'),
    ],
)
def test_what_is_not_mirrored(name):
    assert not names.is_mirrored(name)


@pytest.mark.parametrize(
    'name',
    [
        *(
            'checkpoint',
            'template.json',
            'logs/attempt-1/chief-0.err',
            'notes/temperature',
            'temp-readings.csv',
            'plots/temp-20/a.csv',
            'room_temp/part-0-of-3.csv',
        ),
        *('eval_room_temp/events.out.tfevents.1.vm', 'export/outside_temp/17/saved_model.pb', 'room_temp/part-3.csv'),
    ],
)
def test_what_is_mirrored(name):
    assert names.is_mirrored(name)


def test_a_pointer_has_no_folders_in_the_store():
    text = b'model_checkpoint_path: "/scratch/model.ckpt-20"\nall_model_checkpoint_paths: "model.ckpt-10"\n'
    text += b'all_model_checkpoint_paths: "/scratch/model.ckpt-20"\nlast_preserved_timestamp: 1.5\n'
    assert names.pointer_to('model.ckpt-again-20', text) == (
        b'model_checkpoint_path: "model.ckpt-again-20"\nall_model_checkpoint_paths: "model.ckpt-10"\n'
        b'all_model_checkpoint_paths: "model.ckpt-again-20"\nlast_preserved_timestamp: 1.5\n'
    )


def test_names_that_lead_elsewhere_and_markers_of_folders_are_no_files():
    objects = dict.fromkeys(('a/b', 'a', '../x', '/etc/x', 'a//c', 'd'), 1)
    assert sorted(names.of_files(objects)) == ['a/b', 'd']

"""jobs.job_data: which data a job reads, judged without TensorFlow."""

import pytest

from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.jobs import job_data
from estimator_trainer.jobs.job import Job
from tests import fakes


def job(**changed):
    return Job(**{'model_fn': lambda features: None, **changed})


READS_FILES = job(file_spec=lambda params: None)
OTHERS = {
    'its own input_fn': job(input_fn=lambda mode: None),
    'both': job(input_fn=lambda mode: None, file_spec=lambda params: None),
    '--dataset': job(),
}


def flags(**given):
    return fakes.config(job='x:job', **given)


@pytest.fixture
def files(tmp_path):
    for name in ('train.csv', 'eval.csv', 'eval.parquet', 'odd'):
        (tmp_path / name).touch()
    return tmp_path


def test_files_that_are_there_are_not_refused(files):
    job_data.look_for(READS_FILES, flags(train_files=f'{files}/train.*', eval_files=f'{files}/eval.csv'))


@pytest.mark.parametrize('missing', ['train_files', 'eval_files'])
def test_a_job_that_reads_files_needs_them(files, missing):
    given = {'train_files': f'{files}/train.csv', 'eval_files': f'{files}/eval.csv', missing: ''}
    with pytest.raises(UsageError, match=f'--{missing} is missing: job x:job reads files; name them'):
        job_data.look_for(READS_FILES, flags(**given))


@pytest.mark.parametrize('other', OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize('flag', ['train_files', 'eval_files'])
def test_another_job_has_no_use_for_them(files, other, flag):
    job_data.look_for(other, flags())
    with pytest.raises(UsageError, match=f'--{flag}=x.csv: job x:job does not read files that flags name'):
        job_data.look_for(other, flags(**{flag: 'x.csv'}))


@pytest.mark.parametrize(
    'name, why', [('none*', 'no file matches'), ('odd', 'give --file_format'), ('eval.*', 'is csv, and .* is parquet')]
)
def test_files_that_cannot_be_read_are_named_with_the_flag(files, name, why):
    with pytest.raises(DatasetError, match=f'--train_files: .*{why}'):
        job_data.look_for(READS_FILES, flags(train_files=f'{files}/{name}', eval_files=f'{files}/eval.csv'))


def test_files_of_a_format_that_is_given_are_not_refused(files):
    named = flags(train_files=f'{files}/odd', eval_files=f'{files}/odd', file_format='tfrecord')
    job_data.look_for(READS_FILES, named)


def test_epochs_of_a_job_with_an_own_input_fn_need_its_number_of_examples():
    with pytest.raises(UsageError, match='--epochs=2.0: .*Job.num_train_examples.*--max_steps'):
        job_data.look_for(OTHERS['its own input_fn'], flags(epochs=2.0))
    job_data.look_for(job(input_fn=lambda mode: None, num_train_examples=9), flags(epochs=2.0))
    job_data.look_for(OTHERS['--dataset'], flags(epochs=2.0))

"""file_errors: what TensorFlow's texts say of a file, gathered from TensorFlow 2.15.1 and 2.21."""

import errno

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import file_errors

INDEX, DATA = '/runs/a/model.ckpt-30.index', '/runs/a/model.ckpt-30.data-00000-of-00001'
OP = '{{function_node __wrapped__RestoreV2_dtypes_1_device_/job:localhost/replica:0/task:0/device:CPU:0}} '
REFUSED = {  # the same on both
    f'{INDEX}; Permission denied': errno.EACCES,
    f'{INDEX}; Operation not permitted': errno.EPERM,
    f'{DATA}; Input/output error': errno.EIO,
    f'{OP}{DATA}; Input/output error [Op:RestoreV2]': errno.EIO,
    f'{OP}{DATA}; Too many open files [Op:RestoreV2] name: ': errno.EMFILE,
    f'{INDEX}; Stale file handle': errno.ESTALE,
    f'{INDEX}; Too many open files': errno.EMFILE,
    f'{INDEX}; Too many open files in system': errno.ENFILE,
    f'{INDEX}; Cannot allocate memory': errno.ENOMEM,
    f'{DATA}; Connection timed out': errno.ETIMEDOUT,
    f'{DATA}; Transport endpoint is not connected': errno.ENOTCONN,
    f'{DATA}; Remote I/O error': errno.EREMOTEIO,
    f'{INDEX}; Too many levels of symbolic links': errno.ELOOP,
    f'{INDEX}; No such file or directory': errno.ENOENT,
}
CONTENTS = (
    'Unable to open table file /runs/a/model.ckpt-30: DATA_LOSS: not an sstable (bad magic number): perhaps your '
    'file is in a different file format and you need to use a different restore operator?',
    'Checksum does not match: stored 3207117 vs. calculated on the restored bytes 1163271',
    f'{OP}Read less bytes than requested [Op:RestoreV2]',
    'Unsuccessful TensorSliceReader constructor: Failed to find any matching files for /runs/a/model.ckpt-30',
    'block checksum mismatch',
    'file is too short to be an sstable',
    '',
)


@pytest.mark.parametrize('text, number', REFUSED.items())
def test_the_number_behind_a_text(text, number):
    assert file_errors.number_in(text) == number


@pytest.mark.parametrize('text', CONTENTS)
def test_what_speaks_of_contents_has_none(text):
    assert file_errors.number_in(text) is None


@pytest.mark.parametrize(
    'number, code, cure',
    [
        (errno.EACCES, 74, 'mend the permissions, then give the same command again'),
        (errno.EMFILE, 74, 'ulimit -n'),
        (errno.EISDIR, 74, 'mend that'),
        (0, 74, 'mend that'),
        (errno.EIO, 200, 'the same command resumes'),
        (errno.ESTALE, 200, 'the same command resumes'),
        (errno.ENFILE, 200, 'the same command resumes'),
    ],
)
def test_what_may_pass_is_worth_another_try(number, code, cure):
    assert file_errors.exit_code(number) == code and cure in file_errors.cure(number)
    assert exit_codes.retryable(code) == (number in file_errors.MAY_PASS)

"""What an exception says in one line: its class, the line of its text that tells something, the place in the job.

Pure; imports no TensorFlow.
"""

import os
import re
import site
import sysconfig
import traceback

from estimator_trainer.error_lines import TRACED, cause_in_traced_code, short, telling_line

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
_GENERATED = '__autograph_generated_file'
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_OF_A_JOB = tuple(
    os.path.join(folder, '')
    for folder in {*site.getsitepackages(), *map(sysconfig.get_paths().get, ('stdlib', 'purelib', 'platlib')), _OURS}
)
# Texts of TensorFlow that say what an operation could not do, and what they mean for the job. Each was seen on
# TensorFlow 2.15 and 2.21.
_MEANINGS = (
    (
        re.compile(r'Key (\S+) not found in checkpoint'),
        'the variable {0} is not in the checkpoint that is restored: the model has changed since the checkpoint was '
        'saved. Use another --model_dir, or let the variable have its old name; warm_start_from takes up those '
        'variables that are there',
    ),
    (
        re.compile(r'Assign requires shapes of both tensors to match\. lhs shape= ?(\[.*?\]) rhs shape= ?(\[.*?\])'),
        'a variable has the shape {0} in the model, and {1} in the checkpoint that is restored: the model has changed '
        'since the checkpoint was saved. Use another --model_dir, or give the model its old sizes',
    ),
    (
        re.compile(r'Loss must be scalar, given: Tensor\(.*?shape=(\(.*?\)), '),
        'the loss of the model_fn has the shape {0}, and a loss is one number: give tf.reduce_mean(loss)',
    ),
    (
        re.compile(r'Input to reshape is a tensor with (\d+) values, but the requested shape has 1\b'),
        'a tensor of {0} values was to be one number. If it is the loss of the model_fn, give tf.reduce_mean(loss)',
    ),
    (
        re.compile(
            r'\[Labels must be <= n_classes - 1\].*?\[x \(.*?\) = \] \[(.*?)(?:\.\.\.)?\] \[y \(.*?\) = \] \[(\d+)\]'
        ),
        'a label is greater than n_classes - 1, which is {1}: the labels begin with {0}. Classes count from 0; give '
        'the Estimator more n_classes, or mend the labels',
    ),
    (
        re.compile(r'\[Labels must be >= 0\.? *\].*?\[x \(.*?\) = \] \[(.*?)(?:\.\.\.)?\]$', re.MULTILINE),
        'a label is negative, which a label that is not in the label_vocabulary becomes: the numbers of the labels '
        'begin with {0}. Add the missing label to label_vocabulary, or mend the labels',
    ),
    (
        re.compile(r'must be provided with type `tpu_config\.RunConfig`|params argument, required by TPUEstimator'),
        'a TPUEstimator is trained on a TPU only: let make_estimator give a tf.estimator.Estimator with the same '
        'model_fn, and the model_fn a tf.estimator.EstimatorSpec',
    ),
    (
        re.compile(r'not a tf\.keras\.optimizers\.Optimizer instance\. Given: <(?:[\w.]*\.)?(\w+) object'),
        'this canned Estimator of TensorFlow 2 takes no {0} of tf.compat.v1.train: give it the name of an optimizer, '
        'such as "Adam", or one of tf.keras.optimizers.legacy; or use the Estimator of the same name in '
        'tf.compat.v1.estimator',
    ),
)


def meaning_of(text: str) -> str:
    """What a text means, and what helps; '' if it is none of those above."""
    for pattern, meaning in _MEANINGS:
        match = pattern.search(text)
        if match:
            return meaning.format(*match.groups())
    return ''


def described(error: BaseException) -> str:
    """Such as "KeyError: 'no column named age' (raises.py, line 6)"."""
    text = text_of(error)
    cause = cause_in_traced_code(text)
    said = short(cause) if cause else f'{type(error).__name__}: {short(first_line(error))}'
    what = meaning_of(text) or said
    file, line = _place(error, text)
    return f'{what} ({os.path.basename(file)}, line {line})' if file else what


def in_traced_code(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The exception of this class for which AutoGraph has raised `error`; it does so around a model_fn of replicas."""
    if not text_of(error).startswith(TRACED):
        return None
    before = error.__context__
    while before is not None and not isinstance(before, kind):
        before = before.__context__
    return before


def first_line(error: BaseException) -> str:
    """The first line of its text that tells something."""
    return telling_line(text_of(error)) or type(error).__name__


def text_of(error: BaseException) -> str:
    return str(getattr(error, 'message', None) or error)


def _place(error: BaseException, text: str) -> tuple[str, int]:
    """The innermost line of the job's own code: in the text, else in the traceback. ('', 0): there is none."""
    named = [(file, int(line)) for file, line in _FRAME.findall(text)]
    raised = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    for frames in (named, raised):
        for file, line in reversed(frames):
            if _is_of_the_job(file):
                return file, line
    return '', 0


def _is_of_the_job(file: str) -> bool:
    if file.startswith('<') or _GENERATED in file:
        return False
    return not os.path.abspath(file).startswith(_NOT_OF_A_JOB)

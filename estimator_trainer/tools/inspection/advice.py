"""What can be done with a run here, and why. Pure."""

import shlex
from typing import NamedTuple

from estimator_trainer.tools.inspection import kinds
from estimator_trainer.tools.inspection.facts import Findings
from estimator_trainer.tools.inspection.kinds import Kind
from estimator_trainer.tools.reporting import some

YES, PROGRAM, NO = 'yes', 'with its program', 'no'
_RUN = '`python -m estimator_trainer.compat run PROGRAM`'


class Advice(NamedTuple):
    what: str  # 'resume', 'evaluate', 'serve' or 'migrate'
    answer: str
    reason: str


def advise(findings: Findings) -> list[Advice]:
    """The advice for a run, or for a folder that holds exports only."""
    if not findings.checkpoints:
        return [_serve(findings)] if findings.exports else []
    return [_resume(findings), _evaluate(findings), _serve(findings), _migrate(findings)]


def _resume(findings: Findings) -> Advice:
    stop = _obstacle(findings)
    if stop:
        return Advice('resume', NO, stop)
    at = f'step {findings.best.step}' if findings.best.step is not None else 'the checkpoint'
    back = ''
    if not findings.place.only and (findings.place.elsewhere or findings.place.named != findings.best.name):
        named = findings.place.elsewhere or findings.place.named or 'none'
        back = (
            f' First write `model_checkpoint_path: "{findings.best.name}"` into the file `checkpoint`: it names '
            f'{named} now, and training would fail or begin at step 0.'
        )
    if findings.own:
        end = findings.own.state.get('state') == 'ended'
        more = ' The run has ended: give it more --max_steps or --epochs.' if end else ''
        return Advice('resume', YES, f'This command goes on from {at}: {findings.own.command}.{more}')
    if findings.kind.family == kinds.OBJECTS:
        return Advice('resume', PROGRAM, f'tf.train.Checkpoint(...).restore of the program goes on from {at}.{back}')
    lost = (
        f' Its graph has operations that TensorFlow here lacks ({some(findings.graph.unknown, 3)}); `assess` says what '
        'of the program needs a change.'
        if findings.graph and findings.graph.unknown
        else ''
    )
    return Advice(
        'resume',
        PROGRAM,
        f'Run the program with this model_dir under {_RUN}; train goes on from {at}. input_fn and '
        f'{_needed(findings.kind)} are not in the files.{back}{lost}',
    )


def _evaluate(findings: Findings) -> Advice:
    stop = _obstacle(findings)
    if stop:
        return Advice('evaluate', NO, stop)
    if findings.own:
        return Advice(
            'evaluate',
            YES,
            'The command of `resume` evaluates what has not been evaluated, and trains if steps are left.',
        )
    if findings.kind.family == kinds.OBJECTS:
        return Advice('evaluate', PROGRAM, 'The model and its data are in the program.')
    return Advice(
        'evaluate',
        PROGRAM,
        f'Estimator.evaluate(input_fn, checkpoint_path=...) of the program, under {_RUN}. It needs no optimizer.',
    )


def _obstacle(findings: Findings) -> str:
    if findings.best is None:
        return 'No checkpoint is whole.'
    if findings.kind.family == kinds.TREES:
        return 'tensorflow-estimator 2.15, the last version, has no boosted trees.'
    if findings.kind.family == kinds.CONTRIB:
        return (
            'tf.contrib.learn is gone, and tf.estimator names the variables otherwise. tf.train.load_checkpoint reads '
            'the weights by name; a warm start with var_name_to_prev_var_name takes them over.'
        )
    return ''


def _serve(findings: Findings) -> Advice:
    good = [export for export in findings.exports if not export.damage and not export.unknown]
    if good:
        # best is what the trainer takes too
        chosen = max(good, key=lambda export: ('/best/' in f'/{export.path}/', export.path))
        names = [each.name for each in chosen.signatures]
        named = '' if {'predict', 'serving_default'} & set(names) or not names else f' --signature={names[0]}'
        path = _path(findings)
        where = shlex.quote(path if chosen.path == '.' else f'{path}/{chosen.path}')
        return Advice(
            'serve',
            YES,
            f'`python -m estimator_trainer predict --export={where}{named}` with --files and --out predicts whole '
            'files; TensorFlow Serving takes the folder as it is.',
        )
    if findings.exports:
        first = findings.exports[-1]
        why = first.damage or f'it has operations that TensorFlow here lacks: {some(first.unknown, 3)}'
        return Advice('serve', NO, f'{"It is damaged" if first.path == "." else first.path}: {why}.')
    if findings.best is None:
        return Advice('serve', NO, 'There is no export, and no checkpoint is whole.')
    if findings.own:
        return Advice(
            'serve',
            PROGRAM,
            'There is no export. The command of `resume` with --export=final makes one if the job has a '
            'serving_input_fn.',
        )
    return Advice(
        'serve',
        PROGRAM,
        'There is no export. Estimator.export_saved_model of the program makes one from the checkpoint.',
    )


def _migrate(findings: Findings) -> Advice:
    stop = _obstacle(findings)
    if stop:
        return Advice('migrate', NO, stop)
    if findings.own and findings.own.loop != 'estimator':
        return Advice(
            'migrate',
            YES,
            f'It is a run of {findings.own.loop} already. `migrate --from_keras` makes '
            "an Estimator's checkpoint of it.",
        )
    if findings.own:
        job = findings.own.job
        condition = '' if ':' not in job else f', if the job {job} has make_model or makes a canned Estimator'
        return Advice(
            'migrate',
            PROGRAM if condition else YES,
            f'`python -m estimator_trainer migrate --model_dir={shlex.quote(_path(findings))} --to=FOLDER` makes '
            f'files of Keras of it{condition}.',
        )
    if findings.kind.family == kinds.KERAS:
        return Advice(
            'migrate',
            PROGRAM,
            'The Keras model is in the program: build it there, and load the weights with '
            'tf.train.Checkpoint(model=model).',
        )
    if findings.kind.family == kinds.OBJECTS:
        return Advice('migrate', PROGRAM, 'Restore it into the model of the program, and save that as .keras.')
    if findings.kind.family != kinds.CANNED:
        return Advice(
            'migrate',
            NO,
            '`migrate` takes linear, DNN, combined and baseline Estimators, and runs of this trainer whose job has '
            'make_model.',
        )
    if any('shared_embedding' in variable.name for variable in findings.best.variables):
        return Advice('migrate', NO, '`migrate` does not know columns that share an embedding.')
    return Advice(
        'migrate',
        PROGRAM,
        'The program needs a function that gives the Estimator, and one that gives a tf.data.Dataset. `python -m '
        'estimator_trainer migrate --program=FILE.py:FUNCTION --input_fn=FUNCTION '
        f'--model_dir={shlex.quote(_path(findings))} --to=FOLDER` then makes a model of Keras 3, or says what has no '
        'equal there.',
    )


def _path(findings: Findings) -> str:
    return findings.place.path.rstrip('/')


def _needed(kind: Kind) -> str:
    return (
        'the feature columns'
        if kind.family in (kinds.CANNED, kinds.RNN) and 'baseline' not in kind.parts
        else 'the model'
    )

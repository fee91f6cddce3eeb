"""What can be done with a run here, and why. Pure."""

import shlex
from typing import NamedTuple

from estimator_trainer.tools.inspection import kinds
from estimator_trainer.tools.inspection.facts import Checkpoint, Export, Graph, OwnRun
from estimator_trainer.tools.inspection.kinds import Kind
from estimator_trainer.tools.reporting import some

YES, PROGRAM, NO = 'yes', 'with its program', 'no'
_RUN = '`python -m estimator_trainer.compat run PROGRAM`'


class Advice(NamedTuple):
    what: str  # 'resume', 'evaluate', 'serve' or 'migrate'
    answer: str
    reason: str


class Evidence(NamedTuple):
    """What the advice rests on.

    `best` is the newest checkpoint that is whole, `named` the one that TensorFlow takes.
    `elsewhere` is the path that TensorFlow takes in another folder.
    """

    kind: Kind
    best: Checkpoint | None
    named: str
    elsewhere: str
    checkpoints: int
    exports: tuple[Export, ...]
    graph: Graph | None
    own: OwnRun | None
    whole_folder: bool
    path: str


def advise(known: Evidence) -> list[Advice]:
    """The advice for a run, or for a folder that holds exports only."""
    if not known.checkpoints:
        return [_serve(known)] if known.exports else []
    return [_resume(known), _evaluate(known), _serve(known), _migrate(known)]


def _resume(known: Evidence) -> Advice:
    stop = _obstacle(known)
    if stop:
        return Advice('resume', NO, stop)
    at = f'step {known.best.step}' if known.best.step is not None else 'the checkpoint'
    back = ''
    if known.whole_folder and (known.elsewhere or known.named != known.best.name):
        back = (
            f' First write `model_checkpoint_path: "{known.best.name}"` into the file `checkpoint`: it names '
            f'{known.elsewhere or known.named or "none"} now, and training would fail or begin at step 0.'
        )
    if known.own:
        end = known.own.state.get('state') == 'ended'
        more = ' The run has ended: give it more --max_steps or --epochs.' if end else ''
        return Advice('resume', YES, f'This command goes on from {at}: {known.own.command}.{more}')
    if known.kind.family == kinds.OBJECTS:
        return Advice('resume', PROGRAM, f'tf.train.Checkpoint(...).restore of the program goes on from {at}.{back}')
    lost = (
        f' Its graph has operations that TensorFlow here lacks ({some(known.graph.unknown, 3)}); `assess` says what of '
        'the program needs a change.'
        if known.graph and known.graph.unknown
        else ''
    )
    return Advice(
        'resume',
        PROGRAM,
        f'Run the program with this model_dir under {_RUN}; train goes on from {at}. input_fn and '
        f'{_needed(known.kind)} are not in the files.{back}{lost}',
    )


def _evaluate(known: Evidence) -> Advice:
    stop = _obstacle(known)
    if stop:
        return Advice('evaluate', NO, stop)
    if known.own:
        return Advice(
            'evaluate',
            YES,
            'The command of `resume` evaluates what has not been evaluated, and trains if steps are left.',
        )
    if known.kind.family == kinds.OBJECTS:
        return Advice('evaluate', PROGRAM, 'The model and its data are in the program.')
    return Advice(
        'evaluate',
        PROGRAM,
        f'Estimator.evaluate(input_fn, checkpoint_path=...) of the program, under {_RUN}. It needs no optimizer.',
    )


def _obstacle(known: Evidence) -> str:
    if known.best is None:
        return 'No checkpoint is whole.'
    if known.kind.family == kinds.TREES:
        return 'tensorflow-estimator 2.15, the last version, has no boosted trees.'
    if known.kind.family == kinds.CONTRIB:
        return (
            'tf.contrib.learn is gone, and tf.estimator names the variables otherwise. tf.train.load_checkpoint reads '
            'the weights by name; a warm start with var_name_to_prev_var_name takes them over.'
        )
    return ''


def _serve(known: Evidence) -> Advice:
    good = [export for export in known.exports if not export.damage and not export.unknown]
    if good:
        # best is what the trainer takes too
        chosen = max(good, key=lambda export: ('/best/' in f'/{export.path}/', export.path))
        names = [each.name for each in chosen.signatures]
        named = '' if {'predict', 'serving_default'} & set(names) or not names else f' --signature={names[0]}'
        where = shlex.quote(known.path if chosen.path == '.' else f'{known.path}/{chosen.path}')
        return Advice(
            'serve',
            YES,
            f'`python -m estimator_trainer predict --export={where}{named}` with --files and --out predicts whole '
            'files; TensorFlow Serving takes the folder as it is.',
        )
    if known.exports:
        first = known.exports[-1]
        why = first.damage or f'it has operations that TensorFlow here lacks: {some(first.unknown, 3)}'
        return Advice('serve', NO, f'{"It is damaged" if first.path == "." else first.path}: {why}.')
    if known.best is None:
        return Advice('serve', NO, 'There is no export, and no checkpoint is whole.')
    if known.own:
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


def _migrate(known: Evidence) -> Advice:
    stop = _obstacle(known)
    if stop:
        return Advice('migrate', NO, stop)
    if known.own and known.own.loop != 'estimator':
        return Advice(
            'migrate',
            YES,
            f"It is a run of {known.own.loop} already. `migrate --from_keras` makes an Estimator's checkpoint of it.",
        )
    if known.own:
        job = known.own.job
        condition = '' if ':' not in job else f', if the job {job} has make_model or makes a canned Estimator'
        return Advice(
            'migrate',
            PROGRAM if condition else YES,
            f'`python -m estimator_trainer migrate --model_dir={shlex.quote(known.path)} --to=FOLDER` makes files of '
            f'Keras of it{condition}.',
        )
    if known.kind.family == kinds.KERAS:
        return Advice(
            'migrate',
            PROGRAM,
            'The Keras model is in the program: build it there, and load the weights with '
            'tf.train.Checkpoint(model=model).',
        )
    if known.kind.family == kinds.OBJECTS:
        return Advice('migrate', PROGRAM, 'Restore it into the model of the program, and save that as .keras.')
    if known.kind.family != kinds.CANNED:
        return Advice(
            'migrate',
            NO,
            '`migrate` takes linear, DNN, combined and baseline Estimators, and runs of this trainer whose job has '
            'make_model.',
        )
    if any('shared_embedding' in variable.name for variable in known.best.variables):
        return Advice('migrate', NO, '`migrate` does not know columns that share an embedding.')
    return Advice(
        'migrate',
        PROGRAM,
        'The program needs a function that gives the Estimator, and one that gives a tf.data.Dataset. `python -m '
        'estimator_trainer migrate --program=FILE.py:FUNCTION --input_fn=FUNCTION '
        f'--model_dir={shlex.quote(known.path)} --to=FOLDER` then makes a model of Keras 3, or says what has no '
        'equal there.',
    )


def _needed(kind: Kind) -> str:
    return (
        'the feature columns'
        if kind.family in (kinds.CANNED, kinds.RNN) and 'baseline' not in kind.parts
        else 'the model'
    )

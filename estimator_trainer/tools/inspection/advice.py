"""What can be done with a run here, and why: tables of answers, by what has written the run. Pure."""

import dataclasses
import shlex
from typing import TYPE_CHECKING, NamedTuple

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection import kinds
from estimator_trainer.tools.predict.predict_plan import DEFAULTS
from estimator_trainer.tools.reporting import some

if TYPE_CHECKING:  # it imports TensorFlow
    from estimator_trainer.tools.inspection.folder_findings import Findings

YES, PROGRAM, NO = 'yes', 'with its program', 'no'
RESUME, EVALUATE, SERVE, MIGRATE = 'resume', 'evaluate', 'serve', 'migrate'
_RUN = '`python -m estimator_trainer.compat run PROGRAM` (`run --tf1 PROGRAM` if it is written for TensorFlow 1)'
_NOT_IN_COMMAND = ('model_dir', 'dry_run', 'progress')
_OBSTACLES = {
    kinds.TREES: 'tensorflow-estimator 2.15, the last version, has no boosted trees.',
    kinds.CONTRIB: 'tf.contrib.learn is gone, and tf.estimator names the variables otherwise. tf.train.load_checkpoint '
    'reads the weights by name; a warm start with var_name_to_prev_var_name takes them over.',
}
_OF_PROGRAM = {
    RESUME: (
        PROGRAM,
        f'Run the program with this model_dir under {_RUN}; train goes on from {{at}}. input_fn and {{needed}} are not '
        'in the files.{back}{lost}',
    ),
    EVALUATE: (
        PROGRAM,
        f'Estimator.evaluate(input_fn, checkpoint_path=...) of the program, under {_RUN}. It needs no optimizer.',
    ),
    SERVE: (PROGRAM, 'There is no export. Estimator.export_saved_model of the program makes one from the checkpoint.'),
}
_OF_OBJECTS = {
    **_OF_PROGRAM,
    RESUME: (PROGRAM, 'tf.train.Checkpoint(...).restore of the program goes on from {at}.{back}'),
    EVALUATE: (PROGRAM, 'The model and its data are in the program.'),
}
_OF_THIS_TRAINER = {
    RESUME: (YES, 'This command goes on from {at}: {command}.{ended}'),
    EVALUATE: (
        YES,
        '`python -m estimator_trainer evaluate --model_dir={path}` prints the metrics of the newest checkpoint; '
        '--checkpoint_step names another one, --eval_files or --dataset other data.',
    ),
    SERVE: (
        PROGRAM,
        'There is no export. The command of `resume` with --export=final makes one if the job has a serving_input_fn.',
    ),
}
_MIGRATE_RUN = '`python -m estimator_trainer migrate --model_dir={path} --to=FOLDER` makes files of Keras of it'
_MIGRATIONS = {  # of a run of this trainer, or else by what has written it
    'loop': (YES, "It is a run of {loop} already. `migrate --from_keras` makes an Estimator's checkpoint of it."),
    'job': (YES, f'{_MIGRATE_RUN}.'),
    'own job': (PROGRAM, f'{_MIGRATE_RUN}, if the job {{job}} has make_model or makes a canned Estimator.'),
    kinds.CANNED: (
        PROGRAM,
        'The program needs a function that gives the Estimator, and one that gives a tf.data.Dataset. `python -m '
        'estimator_trainer migrate --program=FILE.py:FUNCTION --input_fn=FUNCTION --model_dir={path} --to=FOLDER` then '
        'makes a model of Keras 3, or says what has no equal there.',
    ),
    'shared': (NO, '`migrate` does not know columns that share an embedding.'),
    kinds.KERAS: (
        PROGRAM,
        'The Keras model is in the program: build it there, and load the weights with '
        'tf.train.Checkpoint(model=model).',
    ),
    kinds.OBJECTS: (PROGRAM, 'Restore it into the model of the program, and save that as .keras.'),
    'other': (
        NO,
        '`migrate` takes linear, DNN, combined and baseline Estimators, and runs of this trainer whose job has '
        'make_model.',
    ),
}


class Advice(NamedTuple):
    what: str  # RESUME, EVALUATE, SERVE or MIGRATE
    answer: str
    reason: str


def advise(findings: 'Findings') -> list[Advice]:
    """The advice for a run, or for a folder that holds exports only."""
    exported = {SERVE: _of_exports(findings)} if findings.exports else {}
    if not findings.checkpoints:
        return list(exported.values())
    answers = {kinds.OBJECTS: _OF_OBJECTS}.get(findings.kind.family, _OF_PROGRAM)
    answers = {**(_OF_THIS_TRAINER if findings.own else answers), MIGRATE: _MIGRATIONS[_migration(findings)]}
    obstacle = _OBSTACLES.get(findings.kind.family, '')
    if findings.best is None:
        obstacle = 'No checkpoint is whole.'
        answers[SERVE] = (NO, 'There is no export, and no checkpoint is whole.')
    if obstacle:
        answers |= {what: (NO, obstacle) for what in (RESUME, EVALUATE, MIGRATE)}
    facts = _facts(findings)
    made = {what: Advice(what, answer, reason.format_map(facts)) for what, (answer, reason) in answers.items()}
    return list((made | exported).values())


def _migration(findings: 'Findings') -> str:
    kind, own = findings.kind, findings.own
    if own:
        return 'loop' if own.config['loop'] != 'estimator' else 'own job' if ':' in str(own.config['job']) else 'job'
    if kind.family == kinds.CANNED and any('shared_embedding' in each.name for each in findings.variables):
        return 'shared'
    return kind.family if kind.family in _MIGRATIONS else 'other'


def _facts(findings: 'Findings') -> dict[str, str]:
    """What the answers name."""
    place, best, kind, own = findings.place, findings.best, findings.kind, findings.own
    back = lost = ''
    named = place.elsewhere or place.run.pointer.name or 'none'
    if best and not place.only and named != best.name:
        back = (
            f' First write `model_checkpoint_path: "{best.name}"` into the file `checkpoint`: it names {named} now, '
            'and training would fail or begin at step 0.'
        )
    if findings.graph and findings.graph.unknown:
        lost = (
            f' Its graph has operations that TensorFlow here lacks ({some(findings.graph.unknown, 3)}); `assess` says '
            'what of the program needs a change.'
        )
    has_columns = kind.family in (kinds.CANNED, kinds.RNN) and 'baseline' not in kind.parts
    has_ended = own and own.training.get('state') == 'ended'
    return {
        'at': f'step {best.step}' if best and best.step is not None else 'the checkpoint',
        'back': back,
        'lost': lost,
        'needed': 'the feature columns' if has_columns else 'the model',
        'path': shlex.quote(place.path.rstrip('/')),
        'command': command(own) if own else '',
        'ended': ' The run has ended: give it more --max_steps or --epochs.' if has_ended else '',
        'loop': str(own.config['loop']) if own else '',
        'job': str(own.config['job']) if own else '',
    }


def _of_exports(findings: 'Findings') -> Advice:
    """Whether an export can be served, and which."""
    good = [export for export in findings.exports if not export.damage and not export.unknown]
    if not good:
        last = findings.exports[-1]
        why = last.damage or f'it has operations that TensorFlow here lacks: {some(last.unknown, 3)}'
        return Advice(SERVE, NO, f'{"It is damaged" if last.path == "." else last.path}: {why}.')
    chosen = max(good, key=lambda export: ('/best/' in f'/{export.path}/', export.path))  # what the trainer takes too
    names = [each.name for each in chosen.signatures if not each.not_from_files]
    if chosen.signatures and not names:
        return Advice(
            SERVE,
            YES,
            'TensorFlow Serving takes the folder as it is. `predict` does not: files need a fixed shape for each '
            f'example, which the input {chosen.signatures[0].not_from_files} does not have.',
        )
    by_itself = next((name for name in DEFAULTS if any(name == each.name for each in chosen.signatures)), '')
    better = next((name for name in (*DEFAULTS, *names) if name in names), '')
    signature = '' if not names or by_itself in names else f' --signature={better}'
    path = findings.place.path.rstrip('/')
    where = shlex.quote(path if chosen.path == '.' else f'{path}/{chosen.path}')
    return Advice(
        SERVE,
        YES,
        f'`python -m estimator_trainer predict --export={where}{signature}` with --files and --out predicts whole '
        'files; TensorFlow Serving takes the folder as it is.',
    )


def command(run: RunFolder) -> str:
    """The command that goes on with a run, without the cluster that it may have had."""
    given = []
    for field in dataclasses.fields(TrainerConfig):
        value = run.flags.get(field.name, field.default)
        value = tuple(value) if isinstance(value, list) else value
        if field.name in _NOT_IN_COMMAND or value == field.default:
            continue
        if isinstance(value, bool):
            given.append(f'--{field.name}' if value else f'--no{field.name}')
        elif field.metadata['flag'].repeated:
            given += [f'--{field.name}={shlex.quote(str(each))}' for each in value]
        else:
            text = ','.join(map(str, value)) if isinstance(value, tuple) else str(value)
            given.append(f'--{field.name}={shlex.quote(text)}')
    return ' '.join(['python -m estimator_trainer', *given, f'--model_dir={shlex.quote(run.path)}'])

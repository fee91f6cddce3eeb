"""Writes docs/reference.md from the declarations in the code.

python docs/make_reference.py
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from estimator_trainer import exit_codes  # noqa: E402
from estimator_trainer.config import declaration, shipped_files  # noqa: E402
from estimator_trainer.config.trainer_config import TrainerConfig  # noqa: E402
from estimator_trainer.run_dir import written_files  # noqa: E402
from estimator_trainer.supervisor.options import ClusterFlags  # noqa: E402
from estimator_trainer.tools.assess.assess_command import AssessFlags  # noqa: E402
from estimator_trainer.tools.comparison.parity_command import ParityFlags  # noqa: E402
from estimator_trainer.tools.comparison.verify_command import VerifyFlags  # noqa: E402
from estimator_trainer.tools.finished.evaluate import EvaluateFlags  # noqa: E402
from estimator_trainer.tools.finished.export import ExportFlags  # noqa: E402
from estimator_trainer.tools.inspection.inspect_command import InspectFlags  # noqa: E402
from estimator_trainer.tools.migrate.migrate_command import MigrateFlags  # noqa: E402
from estimator_trainer.tools.predict.predict_command import PredictFlags  # noqa: E402
from estimator_trainer.tools.report.report_command import ReportFlags  # noqa: E402
from estimator_trainer.tools.status import StatusFlags  # noqa: E402
from estimator_trainer.tools.sweep.sweep_command import SweepFlags  # noqa: E402
from estimator_trainer.tools.track.track_command import TrackFlags  # noqa: E402

PAGE = ROOT / 'docs' / 'reference.md'

TEXT = """\
# Reference

`python docs/make_reference.py` makes this page from the declarations in the code. Do not edit it by hand.

- [Flags of the trainer](#flags-of-the-trainer)
- [Flags of the cluster](#flags-of-the-cluster)
- [Flags of parity](#flags-of-parity)
- [Flags of migrate](#flags-of-migrate)
- [Flags of predict](#flags-of-predict)
- [Flags of evaluate and export](#flags-of-evaluate-and-export)
- [Flags of assess](#flags-of-assess)
- [Flags of verify](#flags-of-verify)
- [Flags of inspect](#flags-of-inspect)
- [Flags of sweep](#flags-of-sweep)
- [Flags of report](#flags-of-report)
- [Flags of status](#flags-of-status)
- [Flags of track](#flags-of-track)
- [Params of the built-in jobs](#params-of-the-built-in-jobs)
- [Exit codes](#exit-codes)
- [Files of a run](#files-of-a-run)

## Flags of the trainer

`python -m estimator_trainer` takes these flags. Write `--name=value`; for a switch also `--name` and `--noname`.
`--flagfile=FILE` reads flags from a file, one on each line; `#` at the beginning of a line or after a blank begins a
comment. A flag on the command line overrides one in a flagfile. If both are in the same place, the last one counts.
This also holds for flags that exclude each other: `--flagfile=FILE --max_steps=300` trains 300 steps, although the file
has `--epochs`. The first lines of a run say what was overridden. An empty value, such as `--epochs=`, unsets a flag
that need not have a value; `--param=` unsets all params before it.

Flag files come with the package: {flag_files}. Where you have no file of that name, `--flagfile=mnist_5k` and
`--flagfile=configs/mnist_5k.flags` mean the one of the package.

{trainer}
## Flags of the cluster

`run_local_cluster.sh` and `python -m estimator_trainer cluster` take these flags. The flags of the trainer come after
`--`.

{cluster}
## Flags of parity

`python -m estimator_trainer parity` takes these flags; [keras.md](keras.md) describes the command.

{parity}
## Flags of migrate

`python -m estimator_trainer migrate` takes these flags; [keras.md](keras.md) describes the command.

{migrate}
## Flags of predict

`python -m estimator_trainer predict` takes these flags; [predict.md](predict.md) describes the command.

{predict}
## Flags of evaluate and export

`python -m estimator_trainer evaluate` takes these flags; [evaluate.md](evaluate.md) describes both commands.

{evaluate}
`python -m estimator_trainer export` takes these flags.

{export}
## Flags of assess

`python -m estimator_trainer assess` takes programs and folders, and these flags; [assess.md](assess.md) describes the
command.

{assess}
## Flags of verify

`python -m estimator_trainer verify` takes a program and these flags, and the arguments of the program after `--`;
[verify.md](verify.md) describes the command.

{verify}
## Flags of inspect

`python -m estimator_trainer inspect` takes model_dirs, SavedModels and checkpoints, and these flags;
[inspect.md](inspect.md) describes the command.

{inspect}
## Flags of sweep

`python -m estimator_trainer sweep` takes these flags, and the flags of the trainer after `--`; [sweep.md](sweep.md)
describes the command.

{sweep}
## Flags of report

`python -m estimator_trainer report` takes model_dirs and these flags; [report.md](report.md) describes the command.

{report}
## Flags of status

`python -m estimator_trainer status` takes a model_dir and these flags; [report.md](report.md#status) describes the
command and its exit codes.

{status}
## Flags of track

`python -m estimator_trainer track` takes a model_dir and these flags; [track.md](track.md) describes the command.

{track}
## Params of the built-in jobs

`--param=name=value` sets them. `mnist` and `fashion_mnist` have the same ones: `optimizer` (`sgd`, `momentum`, `adam`),
`learning_rate`, `schedule` (`constant`; `step` with `decay_epochs` and `decay_factor`; `cosine`), `warmup_steps`,
`scale_rate_with_replicas`, `l2`, `shift_pixels`, `turn_degrees`, `zoom`, `classes`, and `filters`, which gives the
filters of each convolution (32 in `mnist`; 32,64 in `fashion_mnist`; each is followed by a pooling). `--dry_run` shows
their values, and the params of `wide_and_deep` ([flights.md](flights.md)).

`step` and `cosine` are functions of the global step, with the `steps_per_epoch` and `max_steps` of this start. If a run
goes on with another global batch, its rate may jump: give it `decay_epochs` and a `learning_rate` that fit.

## Exit codes

If the code is below 128, the failure is permanent: the same command would fail the same way. If it is 128 or more, the
same command may succeed, and resumes at the last checkpoint. Kubeflow's `ExitCode` policy makes the same distinction.
The local supervisor also restarts after code 1, because the cause of an exception may be temporary.

{codes}
## Files of a run

Every file has one writer at a time. A file that is replaced is written under a temporary name first and then renamed;
lines are added to logs and to `metrics.jsonl`. Paths are relative to the model_dir; `--log_dir` moves `logs/`.

To remove everything, end the runs, `pip uninstall estimator-trainer`, and delete the model_dirs,
`~/.cache/estimator_trainer` (`$XDG_CACHE_HOME/estimator_trainer`) and the indexes `.NAME.index` beside your TFRecord
and CSV files. Nothing else is written, but what your flags name.

{files}
An exported image model takes `image`, uint8 [batch, height, width, channels], and returns `logits`, `probabilities` and
`classes`.
"""


_AS_SAID = 'what the last lines of the task say'
AFTER = {
    exit_codes.OK: 'nothing; to train on, a higher `--max_steps`',
    exit_codes.FAILED: 'mend what the traceback names, then give the same command again',
    exit_codes.USAGE: _AS_SAID,
    exit_codes.DAMAGED: _AS_SAID,
    exit_codes.NO_DATA: _AS_SAID,
    exit_codes.NOT_FINITE: '[find where it comes from](recipes.md#how-do-i-find-where-a-nan-comes-from); no checkpoint '
    'holds it',
    exit_codes.OUT_OF_MEMORY: 'a smaller `--batch_size`, with `--accumulate_steps` if the global batch has to stay; or '
    'more memory',
    exit_codes.CANNOT_WRITE: 'make room, or give the right to write; then the same command',
    exit_codes.INTERRUPTED: 'give the same command again',
    exit_codes.TERMINATED: 'give the same command again',
    exit_codes.LOST_PEER: 'look at the task that was lost; all tasks start again, which supervisors and engines do',
    exit_codes.NO_PEER: "see whether all tasks were started and reach each other's ports; then start all of them again",
    exit_codes.STALLED: '[look at the stacks](failures.md#what-every-task-does) that it has printed; if steps take so '
    'long, a higher `--step_timeout_secs`',
    exit_codes.NOT_SAVED: 'give the same command again; for slow steps or checkpoints, a longer `--grace_secs`',
    exit_codes.RESTARTS_SPENT: 'mend the last cause, which the line names; then the same command',
    exit_codes.PORT_TAKEN: 'give another port in TF_CONFIG or end what holds it; supervisors choose another one',
    exit_codes.MODEL_DIR_TAKEN: 'end the other one, or wait until its lock expires; or give another `--model_dir`',
    exit_codes.FILES_AWAY: 'give the same command again when the files are back',
    exit_codes.NOT_SENT: 'give the same command again on this machine',
    exit_codes.COMPANION_LOST: 'give the same command again; the lines before say why',
}


def text() -> str:
    """The whole page."""
    codes = [(f'{code}', _cell(meaning), AFTER[code]) for code, meaning in exit_codes.MEANINGS.items()]
    codes.append(('128 + N', 'killed by signal N', 'give the same command again; of 137 see 71'))
    files = [
        (', '.join(f'`{path}`' for path in file.paths), file.writer, _cell(file.what)) for file in written_files.FILES
    ]
    return TEXT.format(
        trainer=_flags(TrainerConfig),
        flag_files=', '.join(f'`{name}`' for name in shipped_files.flag_files()),
        cluster=_flags(ClusterFlags),
        parity=_flags(ParityFlags),
        migrate=_flags(MigrateFlags),
        predict=_flags(PredictFlags),
        evaluate=_flags(EvaluateFlags),
        export=_flags(ExportFlags),
        assess=_flags(AssessFlags),
        verify=_flags(VerifyFlags),
        inspect=_flags(InspectFlags),
        sweep=_flags(SweepFlags),
        report=_flags(ReportFlags),
        status=_flags(StatusFlags),
        track=_flags(TrackFlags),
        codes=_table(('code', 'meaning', 'what to do'), codes),
        files=_table(('file', 'written by', 'what it holds'), files),
    )


def _flags(config) -> str:
    tables = []
    for title, members in declaration.groups(config).items():
        rows = [
            (f'`--{flag.name}`', _default(flag), _cell(flag.shown_range), _cell(flag.help), _cell(flag.why))
            for flag in members
        ]
        tables.append(
            f'### {title}\n\n' + _table(('flag', 'default', 'range', 'what it does', 'why this default'), rows)
        )
    return '\n'.join(tables)


def _default(flag) -> str:
    default = flag.shown_default
    return _cell(default) if flag.unset or not default else f'`{default}`'


def _cell(words) -> str:
    return words.replace('|', r'\|').replace('<', '&lt;')


def _table(header, rows) -> str:
    lines = [header, ['---'] * len(header), *rows]
    return ''.join(f'| {" | ".join(line)} |\n' for line in lines)


if __name__ == '__main__':
    PAGE.write_text(text(), encoding='utf-8')

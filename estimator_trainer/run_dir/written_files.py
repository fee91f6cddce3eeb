"""The files of a run, for docs/reference.md: where each lies in the model_dir, who writes it, and what it holds."""

from typing import NamedTuple


class WrittenFile(NamedTuple):
    paths: tuple[str, ...]  # in the model_dir
    writer: str
    what: str


_CHIEF = 'chief'
_EVALUATOR = 'evaluator; the chief if there is none'
_CLUSTER = 'run_local_cluster.sh'

FILES = (
    WrittenFile(
        ('config.json',), _CHIEF, 'the resolved run, the versions of the packages, and the machine of the chief'
    ),
    WrittenFile(('job.pkl',), _CHIEF, 'the Job of a run that `train` of Python has started with a Job of no module'),
    WrittenFile(('checkpoint', 'model.ckpt-*', 'graph.pbtxt'), _CHIEF, 'checkpoints'),
    WrittenFile(
        ('examples.json',),
        _CHIEF,
        'how many examples were read before each checkpoint; only if its step does not say it',
    ),
    WrittenFile(
        ('training.json',),
        _CHIEF,
        'state, step, examples per second, last checkpoint, waits, which tasks answer, `why` training has stopped, and '
        'with which code and message the chief ended (`exit`); renewed every 2 s while the '
        'chief lives',
    ),
    WrittenFile(('damaged/',), _CHIEF, 'checkpoints whose contents are damaged'),
    WrittenFile(
        ('.start.json',),
        _CHIEF,
        'the checkpoint from which the last start resumed; the workers read this file to check that they share the '
        'folder',
    ),
    WrittenFile(
        ('metrics.jsonl',),
        _CHIEF,
        'a line every --log_every_steps: step, time, loss, examples per second, and how long the steps since the last '
        'line have waited for input and for other workers, where that is measured',
    ),
    WrittenFile(('eval/metrics.jsonl',), _EVALUATOR, 'a line for each evaluation'),
    WrittenFile(('eval/stop.json',), f'{_EVALUATOR}; `sweep` for a trial that it prunes', 'the decision to stop early'),
    WrittenFile(
        ('eval/wrong.json',),
        _EVALUATOR,
        'of a --dataset of images: those that the last checkpoint takes for another class, at most 24 of them',
    ),
    WrittenFile(
        ('eval/last.json',),
        _EVALUATOR,
        'the last checkpoint whose evaluation was begun, and whether its evaluation, decision and exports are done',
    ),
    WrittenFile(
        ('events.out.tfevents.*', 'train/events.*'),
        _CHIEF,
        'TensorBoard summaries of the training; the second with keras_fit, by epoch',
    ),
    WrittenFile(('eval/events.*',), _EVALUATOR, 'TensorBoard summaries of the evaluations'),
    WrittenFile(
        ('export/best/<time>', 'export/best/best.json'), _EVALUATOR, 'the best SavedModel so far, across restarts'
    ),
    WrittenFile(('export/final/<time>',), _EVALUATOR, 'the SavedModel of the end of training'),
    WrittenFile(('export/step_N/<time>',), '`export`', 'a SavedModel of the checkpoint of step N'),
    WrittenFile(
        ('logs/attempt-N/<task>.out', 'logs/attempt-N/<task>.err'),
        _CLUSTER,
        'the output of each task; <task>.2.err is that of its second start, if it was restarted alone; <task>.err.1 '
        'is the older half of a long output',
    ),
    WrittenFile(('logs/attempt-N/<task>.error.json',), 'each task', 'why the task ended'),
    WrittenFile(
        ('logs/slurm-JOBID/RESTART/RANK.error.json', 'logs/slurm-JOBID/started'),
        'each task under Slurm; its batch script',
        'why a task of a job of Slurm ended, for each restart of the job; when the job was first started',
    ),
    WrittenFile(('status.json',), _CLUSTER, 'the state of the run, renewed while it lives'),
    WrittenFile(
        ('report.json',),
        _CLUSTER,
        'every attempt of every start of the run, how its tasks ended, and why; written at the end of a start',
    ),
    WrittenFile(
        ('earlier_starts.json',),
        f'{_CLUSTER}; without it the chief',
        'the starts before this one, for as long as there is no report.json; of a chief without a supervisor '
        'each start, this one too: when it began, and how it ended',
    ),
    WrittenFile(
        ('report.html',),
        'run_local_cluster.sh; without it the evaluator, or the chief if there is none; `report`',
        'the page of the run, made from the other files; renewed about every 10 minutes and at the end',
    ),
    WrittenFile(
        ('track/',),
        'chief or run_local_cluster.sh; `track`',
        'for each tracker of the run what was sent to it, a lock, and what its library keeps',
    ),
    WrittenFile(
        ('events.out.tfevents.0.hparams',),
        'chief or run_local_cluster.sh; `track`',
        "the params of the run for TensorBoard's HParams",
    ),
    WrittenFile(
        ('plugins/profile/steps-A-B/<task>.xplane.pb', 'plugins/profile/steps-A-B/<task>.trace.json.gz'),
        'each task of a profile',
        'what the task did in steps A to B, for TensorBoard and for Perfetto; steps-A-B.2 if they were profiled again',
    ),
    WrittenFile(
        ('index/',),
        'each task',
        'where the records of TFRecord and CSV files begin, if that cannot be written beside these files',
    ),
    WrittenFile(
        ('.secure.key',),
        _CHIEF,
        'with --secure: the key of the run, which only its user can read; never sent to a store',
    ),
    WrittenFile(('.trainer.lock',), _CHIEF, 'held by the process that trains here'),
    WrittenFile(
        ('.trainer.lease',), _CHIEF, 'only in an object store: which process trains there; renewed while it lives'
    ),
    WrittenFile(('.evaluator.lease',), 'evaluator', 'the same for an evaluator that has a scratch folder of its own'),
    WrittenFile(('eval/.lock',), _EVALUATOR, 'held by the process that evaluates here'),
    WrittenFile(('.cluster.lock',), _CLUSTER, 'held by the supervisor of this run'),
    WrittenFile(
        ('plan.json', 'study.db', 'sweep.json', 'sweep.html', '.sweep.lock', 'trial-NNNN/'),
        '`sweep`',
        'in the folder of a sweep: what it searches, its trials for Optuna, for programs and for people, its lock, and '
        'the model_dir of each trial',
    ),
)

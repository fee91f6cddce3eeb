"""The files of a run, for docs/reference.md: where each lies in the model_dir, who writes it, and what it holds."""

from typing import NamedTuple


class File(NamedTuple):
    paths: tuple[str, ...]  # in the model_dir
    writer: str
    what: str


_CHIEF = 'chief'
_EVALUATOR = 'evaluator; the chief if there is none'
_CLUSTER = 'run_local_cluster.sh'

FILES = (
    File(('config.json',), _CHIEF, 'the resolved run, and the versions of the packages'),
    File(('checkpoint', 'model.ckpt-*', 'graph.pbtxt'), _CHIEF, 'checkpoints'),
    File(
        ('training.json',),
        _CHIEF,
        'state, step, examples per second and last checkpoint; renewed every 2 s while the chief lives',
    ),
    File(('damaged/',), _CHIEF, 'checkpoints whose contents are damaged'),
    File(
        ('.start.json',),
        _CHIEF,
        'the checkpoint from which the last start went on; the workers look for this file to see that they share the '
        'folder',
    ),
    File(('metrics.jsonl',), _CHIEF, 'a line every --log_every_steps: step, time, loss, examples per second'),
    File(('eval/metrics.jsonl',), _EVALUATOR, 'a line for each evaluation'),
    File(('eval/stop.json',), _EVALUATOR, 'the decision to stop early'),
    File(
        ('eval/last.json',),
        _EVALUATOR,
        'the last checkpoint whose evaluation was begun, and whether its evaluation, decision and exports are done',
    ),
    File(
        ('events.out.tfevents.*', 'train/events.*'),
        _CHIEF,
        'TensorBoard summaries of the training; the second with keras_fit, by epoch',
    ),
    File(('eval/events.*',), _EVALUATOR, 'TensorBoard summaries of the evaluations'),
    File(('export/best/<time>', 'export/best/best.json'), _EVALUATOR, 'the best SavedModel so far, across restarts'),
    File(('export/final/<time>',), _EVALUATOR, 'the SavedModel of the end of training'),
    File(
        ('logs/attempt-N/<task>.out', 'logs/attempt-N/<task>.err'),
        _CLUSTER,
        'the output of each task; <task>.2.err is that of its second life, if it was restarted alone; <task>.err.1 is '
        'the older half of a long one',
    ),
    File(('logs/attempt-N/<task>.error.json',), 'each task', 'why the task ended'),
    File(('status.json',), _CLUSTER, 'how the run goes, while it goes'),
    File(('report.json',), _CLUSTER, 'the whole story, when it has ended'),
    File(('.trainer.lock',), _CHIEF, 'held by the process that trains here'),
    File(('eval/.lock',), _EVALUATOR, 'held by the process that evaluates here'),
    File(('.cluster.lock',), _CLUSTER, 'held by the supervisor of this run'),
)

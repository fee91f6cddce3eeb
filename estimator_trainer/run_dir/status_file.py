"""status.json in the model_dir: how the run is, while it runs.

    state             starting, training, evaluating, backing_off, stopping; in the end done,
                      stopped (by a signal) or failed
    start             how often the run was started in this model_dir, from 1
    attempt           of this start, from 1
    generation        of the gang, as in training.json
    restarts          of the gang, since this start
    task_restarts     of single tasks while the others went on, since this start
    checkpoint_before step of the checkpoint that this attempt began with
    step, max_steps, checkpoint_step, examples_per_sec
                      as in training.json
    secs_left         of training, by the speed of the last minute
    tasks             name, address, pid, state of each
    log_dir           of this attempt
    started, attempt_started  of this start, and of this attempt; seconds since the epoch
    attempts          the last LATEST that have ended, as in report.json
    exit_code         in the end
    pid, time         of the supervisor; seconds since the epoch

What is not known is null.
"""

from estimator_trainer.run_dir import training_file

STARTING, TRAINING, EVALUATING = 'starting', 'training', 'evaluating'
BACKING_OFF, STOPPING = 'backing_off', 'stopping'
DONE, STOPPED, FAILED = 'done', 'stopped', 'failed'
ENDS = (DONE, STOPPED, FAILED)  # the states in which a run is over

DOING = {  # what a run does, by the state in status.json or training.json, in words that follow its name
    STARTING: 'starts',
    TRAINING: 'trains',
    EVALUATING: 'evaluates or exports',
    BACKING_OFF: 'waits before it restarts the tasks',
    STOPPING: 'stops',
    training_file.ENDED: 'ends; training is over',
    training_file.STOPPED: 'stops',
}

"""Decides by --secure whether this task gets a network of its own, and sees to it that the run has a key."""

import contextlib
import dataclasses
import importlib.util
import logging
import os
import time
from collections.abc import Mapping

from estimator_trainer import exit_codes
from estimator_trainer.config import urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.jobs import job_file
from estimator_trainer.monitoring import trackers
from estimator_trainer.run_dir import file_names, files, protocol, removal
from estimator_trainer.secure import decision, entering
from estimator_trainer.secure.entering import CannotSecure
from estimator_trainer.this_process import gpus, isolate
from estimator_trainer.training.plan import Plan

_log = logging.getLogger('estimator_trainer')
_FILES_OF_DATA = ('data_dir', 'train_files', 'eval_files')
_LOOK_SECS = 0.2


def secured(plan: Plan, environ: Mapping[str, str], url: str = '') -> Plan:
    """The plan of a task that is where --secure wants it, with a note. May execute this program again, in a network of
    its own; a dry run stays where it is. `url`: of the store of a run whose model_dir is a scratch folder.

    Raises:
        UsageError: --secure=required, and it cannot be.
        CannotSecure: it could be, and something has failed.
        JobError: --job is a file of somebody else.
    """
    if entering.state is not None:
        return dataclasses.replace(plan, inside=entering.inside(plan.cluster))
    is_dry = plan.config.dry_run
    decided = decide(plan, environ, url, tries=not is_dry)
    if decided.is_on and not is_dry:
        assert plan.task is not None
        attempt = environ.get(protocol.GENERATION, '')
        kinds, key_file = isolate.kinds_that_work(), _key_file(plan.config, environ)
        _judge_key(key_file)
        job_file.check(plan.config.job)
        entering.enter(plan.cluster, plan.task, key_file, attempt, kinds, plan.notes)
    note = f'if the kernel allows it, {decided.note}' if decided.is_on else decided.note
    return dataclasses.replace(plan, notes=(*plan.notes, note)) if note else plan


def connect(plan: Plan, environ: Mapping[str, str]) -> None:
    """Connects a task that is in a network of its own with the others. It comes after all that can be wrong with the
    flags and the job, because it waits for the chief's key. Raises CannotSecure."""
    if entering.state is not None:
        if not entering.state.problem:
            _have_key(_key_file(plan.config, environ), plan)
        entering.state.serve()
        _log.info('%s', decision.ON)


def decide(plan: Plan, environ: Mapping[str, str], url: str = '', tries: bool = True) -> decision.Decision:
    """Decides for this task.

    Args:
        url: as of `secured`.
        tries: makes a network in a child, and a file beside the key's; a dry run does neither.

    Raises:
        UsageError: as `secured`.
    """
    config, cluster = plan.config, plan.cluster
    opens = plan.task is not None and (plan.num_training_tasks > 1 or bool(cluster.ps))
    tasks = [*cluster.training_tasks, *cluster.tasks_of('ps')] if opens else []
    facts = decision.Facts(
        hosts=tuple(cluster.address(task).rpartition(':')[0] for task in tasks),
        is_isolated=environ.get(protocol.ISOLATED) == '1',
        is_command=entering.is_command,
        has_cryptography=importlib.util.find_spec('cryptography') is not None,
        needs_network=_needs_network(config),
        shares_folder=protocol.STORE not in environ and not url,
        has_key_file=bool(_given_key_file(config, environ)),
        uses_nccl=plan.is_multi_worker and gpus.may_be_used(environ),
    )
    if not facts.hosts or config.secure == 'off' or facts.is_isolated:
        return decision.decide(config.secure, facts)
    if config.secure == 'required' or decision.on_several_machines(facts.hosts):  # what costs a process and a file
        if tries:
            facts = dataclasses.replace(facts, no_namespace=_no_namespace(), no_key=_no_key(_key_file(config, environ)))
    return decision.decide(config.secure, facts)


def _given_key_file(config: TrainerConfig, environ: Mapping[str, str]) -> str:
    """The file of the key that the user, or else the engine, has given; '': neither."""
    return config.secure_key_file or environ.get(protocol.RUN_KEY_FILE, '')


def _key_file(config: TrainerConfig, environ: Mapping[str, str]) -> str:
    return _given_key_file(config, environ) or os.path.join(config.model_dir, file_names.RUN_KEY)


def _judge_key(path: str) -> None:
    """Refuses a key that cannot be used before any port is opened. Raises CannotSecure."""
    from estimator_trainer.secure import run_key

    try:
        run_key.read(path)
    except FileNotFoundError:  # the chief makes it
        pass
    except run_key.KeyRefused as error:
        raise CannotSecure(str(error), exit_codes.USAGE) from None


def _have_key(path: str, plan: Plan) -> None:
    """The chief makes the key of the run if there is none; the others wait for it. The companion reads it, and judges
    it: in a user namespace the files of root have another owner. Raises CannotSecure."""
    from estimator_trainer.secure import run_key

    until = time.monotonic() + plan.config.join_timeout_secs
    while not os.path.exists(path):
        if plan.is_chief:
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                run_key.write(path)
            except OSError as error:
                raise CannotSecure(f'{path}: cannot be written ({error.strerror})', exit_codes.CANNOT_WRITE) from None
            except run_key.KeyRefused as error:
                raise CannotSecure(str(error), exit_codes.CANNOT_WRITE) from None
        elif time.monotonic() >= until:
            raise CannotSecure(
                f'{path}: the chief has not made the key of the run within {plan.config.join_timeout_secs} s '
                '(--join_timeout_secs); start it, with a --model_dir or --secure_key_file that all tasks share',
                exit_codes.NO_PEER,
            )
        else:
            time.sleep(_LOOK_SECS)
            with contextlib.suppress(OSError):  # a network file system then looks again whether the file is there
                os.listdir(os.path.dirname(path))


def _needs_network(config: TrainerConfig) -> str:
    for name in _FILES_OF_DATA:
        if urls.is_url(getattr(config, name)):
            return f'--{name}={getattr(config, name)}'
    for target in map(trackers.parse, config.track):
        if target.kind == trackers.WANDB or target.uri.startswith('http'):
            return f'--track={target}'
    return f'--metrics_port={config.metrics_port}' if config.metrics_port else ''


def _no_namespace() -> str:
    try:
        isolate.kinds_that_work()
        return ''
    except OSError as error:
        return error.strerror or str(error)


def _no_key(path: str) -> str:
    """Why no file in the folder of the key can be this user's alone; '': one can be, or nobody knows yet."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):  # it is made later, if nothing is wrong with the job
        folder = os.path.dirname(folder)
    trial = os.path.join(folder, f'{os.path.basename(path)}.{os.getpid()}.trial.tmp')
    try:
        with files.create(trial) as file:
            os.fchmod(file.fileno(), 0o600)
            status = os.fstat(file.fileno())
    except OSError:  # whoever makes the key says what is wrong
        return ''
    finally:
        with contextlib.suppress(OSError):
            removal.file(trial, files.TEMPORARY)
    if status.st_mode & 0o077 or status.st_uid != os.geteuid():
        return f'the file system of {folder} keeps no files that only their user can read'
    return ''

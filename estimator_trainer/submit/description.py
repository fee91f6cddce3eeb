"""A job description: a small YAML file -> Description, or a UsageError that names file, key, value and cure.

    name: mnist
    flagfile: configs/mnist_5k.flags
    model_dir: /shared/runs/mnist
    roles:
      worker: {count: 2, cores: 4, memory_gib: 8}

Every key is a field of one of the dataclasses below; unknown ones are refused.
"""

import contextlib
import dataclasses
import functools
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import tf_config
from estimator_trainer.config import shipped_files, two_parts, urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.submit import keys
from estimator_trainer.submit.keys import Mistake, key
from estimator_trainer.supervisor.policy.restarts import SAVE_MARGIN_SECS
from tf_config import ROLES

TRAINER = ('-m', 'estimator_trainer')
OURS = 'flagfile flagfiles model_dir scratch_dir cluster_from roles base_port hosts rank grace_secs dry_run'.split()
_SECRETS = re.compile(r'(AWS|AZURE|GOOGLE)_\w*(SECRET|TOKEN|KEY|PASSWORD)')  # what stores read


def _trainer_flags(value: Any, where: str, wrong: list[Mistake]) -> tuple:
    given = keys.options(value, where, wrong)
    for number, flag in enumerate(given):
        name = flag.lstrip('-').partition('=')[0]
        if name in OURS:
            cure = f'--{name} comes from the job description; leave it out'
            wrong.append(Mistake(f'{where}[{number}]', flag, cure))
    return given


def _environment(value: Any, where: str, wrong: list[Mistake]) -> tuple:
    if not isinstance(value, dict):
        wrong.append(Mistake(where, value, 'give names and values, such as {NAME: value}'))
        return ()
    for name, text in value.items():
        _check_variable(name, text, f'{where}.{name}', wrong)
    return tuple(value.items())


def _check_variable(name: object, text: object, where: str, wrong: list[Mistake]) -> None:
    if not isinstance(name, str) or not re.fullmatch('[A-Za-z_][A-Za-z0-9_]*', name):
        wrong.append(Mistake(where, text, 'give a name of letters, digits and _'))
    elif name == 'TF_CONFIG':
        wrong.append(Mistake(where, text, 'the engine tells each task its place; leave it out'))
    elif _SECRETS.fullmatch(name):  # its value is not repeated
        wrong.append(Mistake(where, None, 'credentials do not belong here; docs/engines/README.md says where'))
    elif not isinstance(text, str) or not re.fullmatch(f'({keys.LINE})?', text):
        wrong.append(Mistake(where, text, f"give text of one line, in quotes: '{text}'"))


def _roles(value: Any, where: str, wrong: list[Mistake]) -> tuple:
    if not isinstance(value, dict) or not value:
        wrong.append(Mistake(where, value, 'give at least one role, such as {worker: {count: 2}}'))
        return ()
    read, roles = keys.section(RoleTasks), []
    for role, given in value.items():
        if role in ROLES:
            roles.append((role, read(given, f'{where}.{role}', wrong)))
        else:
            cure = f'{keys.unknown(role, ROLES)}; roles are {", ".join(ROLES)}'
            wrong.append(Mistake(f'{where}.{role}', given, cure))
    return tuple(roles)


_name = keys.text(
    r'[a-z]([-a-z0-9]{0,38}[a-z0-9])?', 'give 1 to 40 lower-case letters, digits and -, a letter first, no - last'
)
_object = keys.text(r'[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?', 'give the name of an object of Kubernetes')
_namespace = keys.text(r'[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?', 'give the name of a namespace')


@dataclasses.dataclass(frozen=True)
class RoleTasks:
    """The tasks of one role, and what each of them may use."""

    count: int = key(keys.whole(1), 1)
    cores: int = key(keys.whole(1), 1)
    memory_gib: float = key(keys.positive, 4)
    gpus: int = key(keys.whole(0), 0)

    @property
    def memory_mib(self) -> int:
        return math.ceil(self.memory_gib * 1024)

    @property
    def resources(self) -> tuple:
        """What the tasks of one pod template, or of one component of a Slurm job, have in common."""
        return self.cores, self.memory_mib, self.gpus


@dataclasses.dataclass(frozen=True)
class Slurm:
    partition: str | None = key(keys.line, None)
    account: str | None = key(keys.line, None)
    extra: tuple = key(keys.options, ())  # of sbatch


@dataclasses.dataclass(frozen=True)
class Kubernetes:
    namespace: str | None = key(_namespace, None)
    kind: str = key(keys.one_of('job', 'jobset', 'tfjob'), 'job')
    claim: str | None = key(keys.line, None)  # name of the PersistentVolumeClaim of the model_dir
    mount: str | None = key(keys.folder, None)  # where it is mounted; the model_dir lies below
    scratch_gib: float = key(keys.positive, 20)  # of the volume of the scratch_dir, in each pod
    service_account: str | None = key(_object, None)  # whose identity reaches the store
    secret: str | None = key(_object, None)  # whose keys become variables of the tasks


@dataclasses.dataclass(frozen=True)
class Ray:
    address: str | None = key(keys.line, None)  # of the dashboard: http://HEAD:8265


@dataclasses.dataclass(frozen=True)
class Description:
    """One job. Ranks are dealt to roles in the order in which `roles` has them.

    Attributes:
        name: of the job; Kubernetes names pods after it, hence the 40 characters.
        flagfile: of the trainer; as the tasks see it, from `working_dir`.
        model_dir: on a file system that all tasks share, or a URL in an object store.
        scratch_dir: of a model_dir with a URL: on each machine, for its tasks; None: the engine's own choice.
        python: the command that runs Python where the tasks are.
        working_dir: of the tasks; None: the engine's own choice.
        args: further trainer flags.
        max_restarts: of the whole gang by the engine; 0: never.
        grace_secs: from SIGTERM to SIGKILL; the trainer gets SAVE_MARGIN_SECS less.
        base_port: of the tasks; None: each engine's own choice (`tf_config.resolvers`).
        source: the file, for errors.
    """

    name: str = key(_name)
    flagfile: str = key(keys.line)
    model_dir: str = key(keys.folder_or_url)
    roles: tuple = key(_roles)  # of (name, RoleTasks)
    python: str = key(keys.line, 'python3')
    scratch_dir: str | None = key(keys.folder, None)
    image: str | None = key(keys.line, None)
    working_dir: str | None = key(keys.folder, None)
    environment: tuple = key(_environment, ())  # of (name, value)
    args: tuple = key(_trainer_flags, ())
    time_limit_minutes: int | None = key(keys.whole(1), None)
    max_restarts: int = key(keys.whole(0), 3)
    grace_secs: int = key(keys.whole(2 * SAVE_MARGIN_SECS), 60)
    base_port: int | None = key(keys.whole(1024, 65535), None)
    slurm: Slurm = key(keys.section(Slurm), Slurm())
    kubernetes: Kubernetes = key(keys.section(Kubernetes), Kubernetes())
    ray: Ray = key(keys.section(Ray), Ray())
    source: str = '<description>'

    @property
    def num_tasks(self) -> int:
        return sum(role.count for _, role in self.roles)

    @property
    def asynchronous(self) -> bool:
        """Whether a worker can be restarted alone: beside parameter servers, unless the trainer gets --sync_ps."""
        return 'ps' in dict(self.roles) and not self._config.sync_ps

    @property
    def step_timeout_secs(self) -> int:
        return self._config.step_timeout_secs

    @functools.cached_property
    def _config(self) -> TrainerConfig:
        """The trainer's flags, as far as they can be read here: this machine may not have the flagfile of the tasks."""
        for path in (os.path.join(self.working_dir or '', self.flagfile), self.flagfile):  # the latter: of the package
            with contextlib.suppress(UsageError):
                return two_parts.read_trainer_flags((f'--flagfile={path}', *self.args)).config
        return two_parts.read_trainer_flags(self.args).config

    @property
    def in_store(self) -> bool:
        """Whether the model_dir is a URL, so that nothing is shared."""
        return urls.is_url(self.model_dir)

    @property
    def extra(self) -> str:
        """The extra of this package that the store needs where the tasks are; '' without a store."""
        return urls.extra(self.model_dir) if self.in_store else ''

    @property
    def layout(self) -> str:
        """The value of the trainer's --roles: 'chief:1,worker:3'."""
        return ','.join(f'{name}:{role.count}' for name, role in self.roles)

    def command(self, *engine_flags: str) -> tuple:
        """The words of a task's command; `engine_flags` say where its cluster comes from, and where it has room."""
        return (
            self.python,
            *TRAINER,
            f'--flagfile={self.flagfile}',
            *self.args,
            f'--model_dir={self.model_dir}',
            f'--grace_secs={self.grace_secs - SAVE_MARGIN_SECS}',
            *engine_flags,
        )

    def tasks(self) -> list[str]:
        """The names of all tasks, in the order of the roles: 'worker:0', …"""
        return [f'{name}:{index}' for name, role in self.roles for index in range(role.count)]

    def cluster(self, addresses: Mapping[str, str]) -> tf_config.Cluster:
        """`addresses`: 'host:port' by the name of the task. Raises UsageError if such roles make up no cluster."""
        made = tf_config.Cluster(
            **{name: tuple(addresses[f'{name}:{index}'] for index in range(role.count)) for name, role in self.roles}
        )
        findings = tf_config.check(made, made.tasks[0], 'auto')
        if findings:
            raise self.error('roles', '; '.join(f'{finding.key} {finding.problem}' for finding in findings))
        return made

    def check_roles(self) -> None:
        """Raises UsageError where the roles make up no cluster, wherever the tasks will be, or none for a store."""
        self.cluster({name: f'host:{port}' for port, name in enumerate(self.tasks(), 1024)})
        if self.in_store and 'ps' in dict(self.roles):
            raise self.error(
                'roles.ps',
                f'parameter servers of several machines cannot save into a store ({self.model_dir}); use a folder '
                'that all tasks share, or workers without ps tasks',
            )

    def error(self, name: str, cure: str) -> UsageError:
        """The error of an engine that cannot use the value of a key, such as 'kubernetes.claim'."""
        value: Any = self
        for part in name.split('.'):
            value = dict(value)[part] if isinstance(value, tuple) else getattr(value, part)
        return UsageError(keys.message(self.source, name, value, cure))


def load(path: str | os.PathLike[str]) -> Description:
    """Reads a job description.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; or PyYAML is missing.
    """
    try:
        import yaml
    except ImportError:
        raise UsageError(f'{path}: PyYAML, which reads it, is missing; pip install pyyaml') from None
    try:
        with open(shipped_files.path_of(os.fspath(path)), encoding='utf-8') as file:
            value = yaml.safe_load(file)
    except OSError as error:
        raise UsageError(f'{path}: {error.strerror}; name the YAML file of a job description') from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f'{path}: is not YAML: {" ".join(str(error).split())}') from None
    return parse(value, str(path))


def parse(value: Any, source: str = '<description>') -> Description:
    """Makes a Description of the content of a YAML file, which `source` names in errors.

    Raises:
        UsageError: something in it is wrong. A line for each mistake.
    """
    wrong: list[Mistake] = []
    description = keys.read(Description, value, '', wrong)
    lines = [keys.message(source, bad.key.lstrip('.'), bad.value, bad.cure) for bad in wrong]
    model_dir = value.get('model_dir') if isinstance(value, dict) else None
    if isinstance(model_dir, str) and urls.is_url(model_dir):
        try:
            urls.check(model_dir, f'{source}: model_dir')
        except UsageError as error:
            lines.append(str(error))
    if lines:
        raise UsageError('\n'.join(lines))
    description = dataclasses.replace(description, source=source)
    if description.in_store:
        description = dataclasses.replace(description, model_dir=urls.normal(description.model_dir))
    elif description.scratch_dir:
        raise description.error('scratch_dir', 'is for a model_dir with a URL; leave it out')
    return description

"""Which modules are the program's own, and mean TF 1 by `tensorflow`, and which belong to libraries for TF 2."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import os
import sysconfig
from collections.abc import Mapping

_PACKAGE_FOLDERS = ('site-packages', 'dist-packages')


@dataclasses.dataclass(frozen=True)
class VersionRule:
    """Which modules mean TF 1, and which mean TF 2.

    A module of an installed package means TF 2, unless the package asks for a TensorFlow below 2. All other modules
    mean TF 1, but those of Python and of estimator_trainer.

    Attributes:
        tf1: top-level packages that mean TF 1 in any case.
        tf2: top-level packages that mean TF 2 in any case.
    """

    tf1: frozenset = frozenset()
    tf2: frozenset = frozenset()

    @classmethod
    def parsed(cls, text: str) -> VersionRule:
        """Reads `str(rule)`: `adanet=1,mylib=2`."""
        pairs = [item.partition('=') for item in text.split(',') if '=' in item]
        return cls(*(frozenset(name for name, _, version in pairs if version == number) for number in '12'))

    def __str__(self) -> str:
        return ','.join([f'{name}=1' for name in sorted(self.tf1)] + [f'{name}=2' for name in sorted(self.tf2)])

    def described(self) -> str:
        """What this decides, in a sentence for the log."""
        exceptions = [
            f'; TF {number} for {", ".join(sorted(names))} in any case'
            for number, names in ((1, self.tf1), (2, self.tf2))
            if names
        ]
        return "TF 1's names for the program's own modules, TF 2's for installed packages" + ''.join(exceptions)

    def means_tf1(self, namespace: dict | None) -> bool:
        """Whether the module with these globals means TF 1."""
        namespace = namespace or {}
        name = namespace.get('__name__') or ''
        top = name.partition('.')[0]
        if top in self.tf1 or top in self.tf2:
            return top in self.tf1
        path = namespace.get('__file__')
        if name == '__main__':
            # `python -m` of an installed package is asked for as a program.
            return path is None or not _is_of_python(path)
        return path is not None and _file_means_tf1(path, top)


@functools.cache
def _file_means_tf1(path: str, top: str) -> bool:
    if _is_of_python(path) or top in ('estimator_trainer', 'tf_config', 'estimator_recorder'):
        return False
    parts = os.path.abspath(path).split(os.sep)
    if any(folder in parts for folder in _PACKAGE_FOLDERS):
        return asks_for_tf1(top)
    return True


def _is_of_python(path: str) -> bool:
    path = os.path.abspath(path)
    if any(folder in path.split(os.sep) for folder in _PACKAGE_FOLDERS):
        return False
    return any(path.startswith(sysconfig.get_path(name) + os.sep) for name in ('stdlib', 'platstdlib'))


def asks_for_tf1(top: str) -> bool:
    """Whether the installed package with this module requires a TensorFlow below 2."""
    return any(_requires_tf1(name) for name in distributions().get(top, ()))


@functools.cache
def distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _requires_tf1(distribution: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    for line in importlib.metadata.requires(distribution) or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        applies = requirement.marker is None or requirement.marker.evaluate({'extra': ''})
        if applies and requirement.name.lower() in ('tensorflow', 'tensorflow-gpu', 'tensorflow-cpu'):
            newest_of_2 = [f'2.{minor}.0' for minor in range(0, 40)]
            return bool(requirement.specifier) and not any(map(requirement.specifier.contains, newest_of_2))
    return False

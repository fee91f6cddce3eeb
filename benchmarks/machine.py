"""What the figures were measured on."""

import datetime
import importlib.metadata
import os
import platform


def describe() -> dict[str, str]:
    """Name -> text, for people: date, cores, CPU, memory, load, and the versions."""
    return {
        'date': datetime.date.today().isoformat(),
        'cores': f'{len(os.sched_getaffinity(0))} of {os.cpu_count()}',
        'CPU': _first('/proc/cpuinfo', 'model name'),
        'memory': f'{int(_first("/proc/meminfo", "MemTotal").split()[0]) / 2**20:.0f} GiB',
        'load average': ', '.join(f'{load:.1f}' for load in os.getloadavg()) + ' (1, 5 and 15 minutes)',
        'system': platform.platform(),
        'Python': platform.python_version(),
        **{name: _version(package) for name, package in _PACKAGES.items()},
    }


_PACKAGES = {'TensorFlow': 'tensorflow', 'tf-keras': 'tf-keras', 'Keras': 'keras', 'PyTorch': 'torch'}


def _version(package) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return 'not installed'


def _first(path, name) -> str:
    with open(path, encoding='utf-8') as file:
        return next((line.partition(':')[2].strip() for line in file if line.startswith(name)), '0 not known')

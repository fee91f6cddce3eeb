"""The machine of this process, for config.json: what people ask first when two runs differ in speed."""

import os
import platform


def facts(proc: str = '/proc') -> dict[str, str | int | float]:
    """System, processor, cores that this process may use, and memory. What the machine does not tell is missing."""
    known: dict[str, str | int | float | None] = {
        'system': platform.platform(),
        'processor': _processor(proc),
        'cores': cores(),
        'memory_gb': _memory_gb(proc),
    }
    return {name: value for name, value in known.items() if value}


def cores() -> int:
    """How many cores this process may use; on a system that does not tell, all of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def _processor(proc: str) -> str:
    named = next((value for name, value in _cpu_lines(proc) if name == 'model name'), '')
    return named or platform.processor() or platform.machine()


def _cpu_lines(proc: str) -> list[tuple[str, str]]:
    """(name, value) of the lines of cpuinfo."""
    lines = (line.partition(':') for line in _lines(f'{proc}/cpuinfo'))
    return [(name.strip(), value.strip()) for name, _, value in lines]


def cpu_flags(proc: str = '/proc') -> str:
    """Words, the instructions of its processor; '' if they are not known."""
    names = ('flags', 'Features')  # the latter one is ARM's
    return next((value for name, value in _cpu_lines(proc) if name in names), '')


def _memory_gb(proc: str) -> float | None:
    for line in _lines(f'{proc}/meminfo'):
        if line.startswith('MemTotal:'):
            return round(int(line.split()[1]) * 1024 / 1e9, 1)
    return None


def free_bytes(proc: str = '/proc', cgroup: str = '/sys/fs/cgroup') -> int | None:
    """The memory that this process may still take: of the machine, or of its container (cgroup v2) if that has less.
    None: nothing says it. What a container's files take in memory counts as free, as far as they were not used lately.
    """
    free = [int(line.split()[1]) * 1024 for line in _lines(f'{proc}/meminfo') if line.startswith('MemAvailable:')]
    most, now = (''.join(_lines(f'{cgroup}/memory.{name}')).strip() for name in ('max', 'current'))
    if most.isdecimal() and now.isdecimal():
        stat = dict(line.split() for line in _lines(f'{cgroup}/memory.stat'))
        free.append(max(0, int(most) - int(now) + int(stat.get('inactive_file', 0))))
    return min(free, default=None)


def whole_cores(cgroup: str = '/sys/fs/cgroup') -> int:
    """The cores that this process may use; fewer if its container (cgroup v2) has a smaller share of their time."""
    number = cores()
    quota, _, period = ''.join(_lines(f'{cgroup}/cpu.max')).strip().partition(' ')
    if quota.isdecimal() and period.isdecimal():
        number = min(number, -(-int(quota) // int(period)))
    return max(1, number)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.readlines()
    except OSError:
        return []

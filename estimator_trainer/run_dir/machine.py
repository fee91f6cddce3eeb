"""The machine of this process, for config.json: what people ask first when two runs differ in speed."""

import os
import platform


def facts(proc: str = '/proc') -> dict[str, str | int | float]:
    """System, processor, cores that this process may use, and memory. What the machine does not tell is missing."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    known = {
        'system': platform.platform(),
        'processor': _processor(proc),
        'cores': cores,
        'memory_gb': _memory_gb(proc),
    }
    return {name: value for name, value in known.items() if value}


def _processor(proc: str) -> str:
    for line in _lines(f'{proc}/cpuinfo'):
        name, _, value = line.partition(':')
        if name.strip() == 'model name':
            return value.strip()
    return platform.processor() or platform.machine()


def _memory_gb(proc: str) -> float | None:
    for line in _lines(f'{proc}/meminfo'):
        if line.startswith('MemTotal:'):
            return round(int(line.split()[1]) * 1024 / 1e9, 1)
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.readlines()
    except OSError:
        return []

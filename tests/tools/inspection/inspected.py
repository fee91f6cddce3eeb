"""The command inspect, what it answers, and harm to the runs that it looks at."""

import json
import os

from estimator_trainer.tools.inspection import inspect_command


def inspect(capsys, *argv, path=None):
    """(exit code, text, JSON)."""
    out = str(path or argv[0]).rstrip('/') + '.json'
    code = inspect_command.main([*map(str, argv), f'--json={out}'])
    shown = capsys.readouterr()
    assert shown.err == ''
    with open(out, encoding='utf-8') as file:
        return code, shown.out, json.load(file)


def answers(found):
    return {each['what']: each['answer'] for each in found['advice']}


def cut(path, left=0.5):
    os.truncate(path, int(os.path.getsize(path) * left))


def flip(path, place=0.5):
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)


def unlink(*paths):
    for path in paths:
        path.unlink()


def saved(run):
    return run / 'export' / 'final' / '1500000000'

"""Runs the tests on TensorFlows of which nobody knows yet whether they work: pre-releases and nightly builds.

    .ci/canary [tensorflow==VERSION | tf-nightly==VERSION ...] [--plain=PYTHON] [--envs=FOLDER] [--parts=PART,...]

Makes an environment of each without the bounds of setup.py, runs the parts in it, and prints a table: version, passed,
failed, and the first line of each failure. Ends with 0 if nothing has failed. Without names it takes the newest
`tensorflow` that the index has, pre-releases included, and the newest `tf-nightly`.

Parts: `tests`, the README's; `acceptance`, the programs of this folder compared with plain TensorFlow 2.15.1;
`workers`, a job of two workers and a lost peer. `--plain` names a Python with TensorFlow 2.15.1; without it one is
installed. With `--envs` the environments stay in this folder, and the next call uses them again.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterable
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ('tests', 'acceptance', 'workers')
_BOUNDED = ('tensorflow', 'tf-keras')  # by setup.py, and not here
_WORKERS = (
    'tests/end_to_end/test_own_jobs.py::test_runs[2-canned:job]',
    'tests/end_to_end/test_faults_alone.py::test_the_survivor_of_kill_9_ends',
)
_LIMIT_SECS = 3 * 3600
_REQUIREMENTS = """
import importlib.metadata as metadata
print('\\n'.join(metadata.requires('estimator-trainer')))
"""


class Row(NamedTuple):
    """A line of the table: a part of one TensorFlow."""

    tensorflow: str
    part: str
    passed: int
    failures: tuple[str, ...]


def main(argv) -> int:
    options = _parse(argv)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.envs or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plain = options.plain
        if 'acceptance' in options.parts and not plain:
            plain = _plain_environment(folder / 'plain')
        rows = []
        for tensorflow in options.tensorflow or newest():
            python, failure = environment(folder / tensorflow.replace('==', '-'), tensorflow)
            if failure:
                rows.append(Row(tensorflow, 'installation', 0, (failure,)))
                continue
            for part in options.parts:
                rows.append(_part(part, tensorflow, python, plain, pathlib.Path(scratch)))
                print(table(rows[-1:]), flush=True)
    print('\n' + table(rows))
    return 1 if any(row.failures for row in rows) else 0


def _parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('tensorflow', nargs='*', help='such as tensorflow==2.22.0rc0')
    parser.add_argument('--plain', help='python with TensorFlow 2.15.1')
    parser.add_argument('--envs', help='folder in which the environments stay')
    parser.add_argument('--parts', default=','.join(PARTS), help=f'of {", ".join(PARTS)} (default: all)')
    options = parser.parse_args(argv)
    options.parts = options.parts.split(',')
    for part in options.parts:
        if part not in PARTS:
            parser.error(f'--parts={part}: the parts are {", ".join(PARTS)}')
    for name in options.tensorflow:
        if '==' not in name:
            parser.error(f'{name}: name a version, such as {name}==2.22.0rc0')
    return options


def newest() -> list[str]:
    """What the index has that is newest: tensorflow, pre-releases included, and tf-nightly."""
    return [f'{name}=={_newest(name)}' for name in ('tensorflow', 'tf-nightly') if _newest(name)]


def _newest(name: str, of: str = '') -> str | None:
    """The newest version that the index has; `of`: what the version begins with."""
    done = _run([sys.executable, '-m', 'pip', 'index', 'versions', '--pre', name], check=False)
    return newest_of(done.stdout, of)


def newest_of(said: str, of: str = '') -> str | None:
    """In the output of `pip index versions`, which is in order."""
    found = re.search(r'^Available versions: (.+)$', said, re.MULTILINE)
    versions = found[1].split(', ') if found else []
    return next((version for version in versions if version.startswith(of)), None)


def keras_2(tensorflow: str, newest_version) -> str | None:
    """The requirement of the Keras 2 that belongs to a TensorFlow: its release, else its nightly build, else the
    newest nightly build; None: the index has none.

    Args:
        tensorflow: such as "tf-nightly==2.23.0.dev20261026".
        newest_version: (name, beginning of the version) -> the newest version, or None.
    """
    minor = '.'.join(tensorflow.partition('==')[2].split('.')[:2]) + '.'
    for name, of in (('tf-keras', minor), ('tf-keras-nightly', minor), ('tf-keras-nightly', '')):
        version = newest_version(name, of)
        if version:
            return f'{name}=={version}'
    return None


def without_bounds(requirements: Iterable[str]) -> list[str]:
    """The project's requirements and those of its extra `test`, without TensorFlow and Keras 2."""
    kept = []
    for each in requirements:
        requirement, _, marker = (part.strip() for part in each.partition(';'))
        name = re.split(r'[^A-Za-z0-9._-]', requirement)[0].lower().replace('_', '-')
        extra = re.search(r'extra == "(.+?)"', marker)
        if name in _BOUNDED or (extra and extra[1] != 'test'):
            continue
        rest = re.sub(r'( and )?extra == ".+?"', '', marker).strip()
        kept.append(f'{requirement}; {rest}' if rest else requirement)
    return kept


def environment(folder: pathlib.Path, tensorflow: str) -> tuple[str, str | None]:
    """(its python, None), or ('', what has failed)."""
    python = str(folder / 'bin' / 'python')
    done = folder / 'installed'
    if done.exists():
        return python, None
    keras = keras_2(tensorflow, _newest)
    if keras is None:
        return '', 'the index has no Keras 2'
    pip = [python, '-m', 'pip', 'install', '-q', '--disable-pip-version-check']
    try:
        _run([sys.executable, '-m', 'venv', '--clear', str(folder)])
        _run([*pip, '--no-deps', '-e', str(ROOT)])
        wanted = without_bounds(_run([python, '-c', _REQUIREMENTS]).stdout.splitlines())
        _run([*pip, tensorflow, *wanted])
        _run([*pip, '--no-deps', keras])  # a nightly build asks for tf-nightly
    except subprocess.CalledProcessError as error:
        return '', first_line(error.stderr)
    done.touch()
    return python, None


def _plain_environment(folder: pathlib.Path) -> str:
    python = folder / 'bin' / 'python'
    if not (folder / 'installed').exists():
        _run([sys.executable, '-m', 'venv', '--clear', str(folder)])
        pip = [str(python), '-m', 'pip', 'install', '-q', '-c', str(ROOT / 'constraints-tf2.15.txt')]
        _run([*pip, 'tensorflow', 'tensorflow-estimator', 'numpy<2'])
        (folder / 'installed').touch()
    return str(python)


def _part(part, tensorflow, python, plain, scratch) -> Row:
    if part == 'acceptance':
        done = _run([python, 'tests/acceptance/compare.py', f'--plain={plain}', f'--compat={python}'], check=False)
        sys.stdout.write(done.stdout)
        return Row(tensorflow, part, *of_acceptance(done.stdout, done.stderr, done.returncode))
    report = scratch / 'report.xml'
    report.unlink(missing_ok=True)
    chosen = _WORKERS if part == 'workers' else ('-n', '3')
    done = _run([python, '-m', 'pytest', '-q', f'--junit-xml={report}', *chosen], check=False)
    if not report.exists():
        return Row(tensorflow, part, 0, (first_line(done.stderr or done.stdout),))
    return Row(tensorflow, part, *of_report(report.read_text(encoding='utf-8')))


def of_report(xml_text: str) -> tuple[int, tuple[str, ...]]:
    """(passed, failures) of a report of pytest."""
    passed, failures = 0, []
    for case in xml.etree.ElementTree.fromstring(xml_text).iter('testcase'):
        wrong = [each for each in case if each.tag in ('failure', 'error')]
        if wrong:
            said = first_line(wrong[0].get('message') or wrong[0].text or '')
            failures.append(f'{case.get("classname")}::{case.get("name")}: {said}')
        elif not any(each.tag == 'skipped' for each in case):
            passed += 1
    return passed, tuple(failures)


def of_acceptance(stdout: str, stderr: str, code: int) -> tuple[int, tuple[str, ...]]:
    """(passed, failures) of compare.py."""
    lines = stdout.splitlines()
    failures = [line for line in lines if ' FAILED ' in line or ' DIFFERS ' in line]
    passed = sum(' ok ' in line for line in lines)
    if code and not failures:
        failures = [first_line(stderr)]
    return passed, tuple(re.sub(' +', ' ', line) for line in failures)


def first_line(text: str) -> str:
    """Of a failure: an error of pip or of Python, else the first line that has any text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.match(r'ERROR|[A-Za-z.]*(Error|Exception)\b', line)), (lines or [''])[0])


def table(rows: Iterable[Row]) -> str:
    """In Markdown; each failure is a line of its own below."""
    lines = ['| TensorFlow | part | passed | failed |', '|---|---|---|---|']
    rows = list(rows)
    lines += [f'| {row.tensorflow} | {row.part} | {row.passed} | {len(row.failures)} |' for row in rows]
    for row in rows:
        lines += [f'  {row.tensorflow}, {row.part}: {failure}' for failure in row.failures]
    return '\n'.join(lines)


def _run(command, check=True) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'PIP_CONSTRAINT')}
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors='replace',
        check=check,
        timeout=_LIMIT_SECS,
    )


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

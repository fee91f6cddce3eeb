"""The tests that packages with Estimators bring along, on plain TensorFlow 2.15 and under `compat run`.

`third_party.py --tests` calls it, and says how. packages_own_tests.ini says for each package where its tests are.
"""

import configparser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
_MAIN = re.compile(r'^if __name__ ==.*?main\(', re.MULTILINE | re.DOTALL)


def packages() -> configparser.ConfigParser:
    """What packages_own_tests.ini says. A section is a package and its version."""
    parser = configparser.ConfigParser(delimiters=('=',), interpolation=None)
    parser.read_string((HERE / 'packages_own_tests.ini').read_text(encoding='utf-8'))
    return parser


def compare(section, plain, compat, sources, folder, only_files='*') -> str:
    """Runs the tests of one package on both, and returns a row of a Markdown table and a line for each difference.

    Args:
        section: the package's section of the .ini file.
        plain: a Python with TensorFlow 2.15.1, pip and pytest.
        compat: the same with a newer TensorFlow.
        sources: a folder of git repositories named owner+name.
        folder: for the package, its logs and the outcomes of its tests; they are kept.
        only_files: a pattern for the names of files with tests.
    """
    outcomes = [
        _Side(section, python, compat=python is compat, folder=folder / side).outcomes(sources, only_files)
        for side, python in (('plain', plain), ('compat', compat))
    ]
    return '\n'.join([_row(section.name, *outcomes), *_differences(*outcomes)])


class _Side:
    """One package on one TensorFlow."""

    def __init__(self, section, python, compat, folder):
        self._section, self._python, self._compat, self._folder = section, str(python), compat, folder
        self._site, self._logs = folder / 'site', folder / 'logs'

    def outcomes(self, sources, only_files) -> dict[str, str]:
        """{test: 'passed', 'skipped' or the last line of its error}."""
        if not self._site.exists():
            try:
                self._lay_out(sources)
            except BaseException:
                shutil.rmtree(self._site, ignore_errors=True)
                raise
        for folder in (self._logs, self._folder / 'tmp'):
            folder.mkdir(exist_ok=True)
        found = {}
        for file in self._files(only_files):
            found.update(self._run(file))
        kept = self._folder / 'outcomes.json'
        kept.write_text(json.dumps(found, indent=1))
        return found

    def _lay_out(self, sources):
        """The package as the index has it, with those files of its repository that the package does not have."""
        self._site.mkdir(parents=True)
        own = self._section.get('install.compat' if self._compat else 'install.plain', '')
        needs = [*self._section.get('install', '').split(), *own.split()]
        if needs:
            _output([self._python, '-m', 'pip', 'install', '-q', '--no-deps', '--target', self._site, *needs], 900)
        if 'repository' not in self._section:
            return
        name, ref, *paths = self._section['repository'].split()
        folder = sources / name.replace('/', '+')
        repository = folder / 'repo' if (folder / 'repo').exists() else folder
        _output(['git', '-C', repository, 'archive', '-o', self._folder / 'source.tar', ref, '--', *paths])
        _output(['tar', '-xf', self._folder / 'source.tar', '--skip-old-files', '-C', self._site])
        messages = sorted(path.relative_to(self._site) for path in self._site.glob(self._section.get('messages', '-')))
        if messages:
            compiler = self._site / 'protoc/data/bin/protoc'
            _output([compiler, '--python_out=.', *messages], cwd=self._site)

        for line in filter(None, self._section.get('change', '').splitlines()):
            file, _, change = line.partition(': ')
            text = (self._site / file).read_text(encoding='utf-8')
            assert change.split(' -> ')[0] in text, line
            (self._site / file).write_text(text.replace(*change.split(' -> ')), encoding='utf-8')

    def _files(self, only_files):
        patterns = self._section['tests'].split()
        left_out = {path for pattern in patterns if pattern[0] == '!' for path in self._site.glob(pattern[1:])}
        found = {path for pattern in patterns if pattern[0] != '!' for path in self._site.glob(pattern)}
        return sorted(path.relative_to(self._site) for path in found - left_out if path.match(only_files))

    def _run(self, file):
        report = self._logs / f'{"_".join(file.parts)}.xml'
        module = '.'.join(file.with_suffix('').parts)
        if not _is_there(report):
            run = ['-m', 'estimator_trainer.compat', 'run', *self._section.get('mode', '').split()]
            if _MAIN.search((self._site / file).read_text(encoding='utf-8')):
                program = ['-m', module, f'--xml_output_file={report}']  # as its authors start it
            else:
                program = ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', f'--junitxml={report}', file]
            command = [self._python, *(run if self._compat else ()), *program]
            timeout = float(self._section.get('timeout', '900'))
            code, text = _bounded(command, timeout, cwd=self._site, env=self._environment())
            report.with_suffix('.log').write_text(text)
            if not _is_there(report):  # absl leaves an empty one when it is killed
                lines = [line.strip() for line in text.splitlines() if line.strip()]
                return {module: f'exit code {code}: {lines[-1] if lines else ""}'}
        return _read(report, module)

    def _environment(self):
        names = ('TF_CONFIG', 'TF_USE_LEGACY_KERAS', 'PYTHONPATH')
        kept = {name: value for name, value in os.environ.items() if name not in names}
        path = [self._site, *([REPOSITORY] if self._compat else ())]
        kept.update(TF_CPP_MIN_LOG_LEVEL='2', CUDA_VISIBLE_DEVICES='-1', TEST_TMPDIR=str(self._folder / 'tmp'))
        settings = dict(pair.split('=', 1) for pair in self._section.get('environment', '').split())
        return {**kept, **settings, 'PYTHONPATH': os.pathsep.join(map(str, path))}


def _is_there(report):
    return report.exists() and report.stat().st_size > 0


def _read(report, module):
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter('testcase'):
        name = case.get('name')
        if name == 'test_session':  # a test that TensorFlow gives to each class, and which is skipped
            continue
        errors = [*case.iter('failure'), *case.iter('error')]
        if errors:
            lines = [line.strip() for line in (errors[0].text or errors[0].get('message', '')).splitlines()]
            outcome = f'failed: {_error_line(lines)}'
        else:
            skipped = case.find('skipped') is not None or case.get('status') == 'notrun'
            outcome = 'skipped' if skipped else 'passed'
        found[f'{module}:{(case.get("classname") or "").rpartition(".")[2]}.{name}'] = outcome
    return found


def _error_line(lines):
    named = [line for line in lines if re.match(r'(E\s+)?[\w.]*(Error|Exception|Exit|Interrupt)\b', line)]
    return (named or [line for line in lines if line] or ['?'])[-1][:300]


def _row(name, plain, compat):
    both = [test for test, outcome in plain.items() if outcome == compat.get(test) == 'passed']
    lost = [test for test, outcome in plain.items() if outcome == 'passed' != compat.get(test)]
    counts = [sum(outcome == 'passed' for outcome in side.values()) for side in (plain, compat)]
    tests = len({test for side in (plain, compat) for test, outcome in side.items() if outcome != 'skipped'})
    return f'| {name} | {tests} | {counts[0]} | {counts[1]} | both {len(both)}, only 2.15.1 {len(lost)} |'


def _differences(plain, compat):
    for test in sorted(plain.keys() | compat.keys()):
        pair = [side.get(test, 'not found') for side in (plain, compat)]
        if any(outcome not in ('passed', 'skipped') for outcome in pair):
            yield f'  {test}\n    plain:  {pair[0]}\n    compat: {pair[1]}'


def _output(command, timeout=120, **where):
    code, text = _bounded(command, timeout, **where)
    if code:
        raise RuntimeError(f'{list(map(str, command))}: {text[-2000:]}')
    return text


def _bounded(command, timeout, **where):
    """The exit code and the output of a command. After `timeout` seconds it and all that it started are killed."""
    with subprocess.Popen(
        list(map(str, command)),
        text=True,
        errors='replace',
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **where,
    ) as process:
        try:
            text, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            text += f'\nnot done after {timeout:g} s'
    return process.returncode, text

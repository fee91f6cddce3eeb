"""tests.acceptance.packages_own_tests: the tests of a made-up package, by their own main() and by pytest."""

import configparser
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import packages_own_tests  # noqa: E402

_PROGRAM = """
import os
from absl.testing import absltest

class MadeUpTest(absltest.TestCase):
    def test_session(self):
        self.skipTest('why')
    def test_same(self):
        pass
    def test_skipped(self):
        self.skipTest('why')
    def test_plain_only(self):
        if 'ESTIMATOR_TRAINER_PYTHON' in os.environ:
            raise ValueError('only there')
    def test_broken(self):
        self.fail('everywhere')

if __name__ == '__main__':
    absltest.main()
"""


def test_both_sides_are_run_and_compared(tmp_path, monkeypatch):
    repository = tmp_path / 'sources/somebody+made_up'
    (repository / 'made_up').mkdir(parents=True)
    (repository / 'made_up/program_test.py').write_text(_PROGRAM)
    (repository / 'made_up/functions_test.py').write_text('def test_function():\n    assert 1 == 2\n')
    (repository / 'made_up/left_out_test.py').write_text('def test_left_out():\n    pass\n')
    for command in (['init', '-q'], ['add', '.'], ['-c', 'user.name=a', '-c', 'user.email=b', 'commit', '-qm', 'c']):
        subprocess.run(['git', '-C', repository, *command], check=True)
    sections = configparser.ConfigParser()
    sections['made-up 1.0'] = {
        'repository': 'somebody/made_up HEAD made_up',
        'tests': 'made_up/*_test.py !made_up/left_out_test.py',
        'change': 'made_up/functions_test.py: 1 == 2 -> 2 == 2',
    }
    pythons = (tmp_path / 'plain', tmp_path / 'compat')
    for python in pythons:
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    lines = packages_own_tests.compare(
        sections['made-up 1.0'], *pythons, sources=tmp_path / 'sources', folder=tmp_path / 'out'
    ).splitlines()
    assert lines == [
        '| made-up 1.0 | 4 | 3 | 2 | both 2, only 2.15.1 1 |',
        '  made_up.program_test:MadeUpTest.test_broken',
        '    plain:  failed: AssertionError: everywhere',
        '    compat: failed: AssertionError: everywhere',
        '  made_up.program_test:MadeUpTest.test_plain_only',
        '    plain:  passed',
        '    compat: failed: ValueError: only there',
    ]


def test_each_section_names_its_tests():
    for name, section in packages_own_tests.packages().items():
        if name != 'DEFAULT':
            assert section['tests'].split() and ('install' in section or 'repository' in section), name

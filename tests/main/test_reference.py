"""docs/reference.md is what the declarations say; exit codes are an API; the README's words and links are true."""

import importlib.util
import itertools
import pathlib
import re

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.config import commands, declaration
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir import written_files
from estimator_trainer.supervisor.options import ClusterFlags
from estimator_trainer.tools.assess.assess_command import AssessFlags
from estimator_trainer.tools.comparison.parity_command import ParityFlags
from estimator_trainer.tools.comparison.verify_command import VerifyFlags
from estimator_trainer.tools.inspection.inspect_command import InspectFlags
from estimator_trainer.tools.migrate.migrate_command import MigrateFlags
from estimator_trainer.tools.predict.predict_command import PredictFlags
from estimator_trainer.tools.sweep.sweep_command import SweepFlags

ROOT = pathlib.Path(__file__).parents[2]
EVERY = (
    TrainerConfig,
    ClusterFlags,
    ParityFlags,
    MigrateFlags,
    PredictFlags,
    AssessFlags,
    VerifyFlags,
    InspectFlags,
    SweepFlags,
)
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
_spec = importlib.util.spec_from_file_location('make_reference', ROOT / 'docs' / 'make_reference.py')
make_reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_reference)


def test_the_page_is_what_its_command_makes():
    assert make_reference.PAGE.read_text(encoding='utf-8') == make_reference.text(), 'run python docs/make_reference.py'


def test_the_page_has_every_flag_with_its_default_every_code_and_every_file():
    rows = [line.strip('| ').split(' | ') for line in make_reference.text().splitlines() if line.startswith('| ')]
    first = [row[0] for row in rows]
    for flag in itertools.chain.from_iterable(map(declaration.declared, EVERY)):
        found = [row for row in rows if row[0] == f'`--{flag.name}`']
        assert found and (flag.unset or flag.repeated or f'`{flag.shown_default}`' in [row[1] for row in found])
    assert {int(cell) for cell in first if cell.isdigit()} == set(exit_codes.MEANINGS)
    assert all(any(f'`{path}`' in cell for cell in first) for file in written_files.FILES for path in file.paths)


def test_the_readme_is_short():
    assert len((ROOT / 'README.md').read_text(encoding='utf-8').splitlines()) <= 200


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text(encoding='utf-8')
    for target in re.findall(r'\]\(([^)]+)\)', text):
        if '://' in target:
            continue
        path, _, anchor = target.partition('#')
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            titles = re.findall(r'^#+ (.*)$', there.read_text(encoding='utf-8'), re.MULTILINE)
            assert anchor in [re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in titles], target


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_file_that_a_page_names_exists(page):
    text = page.read_text(encoding='utf-8')
    for word in re.findall(r'-m estimator_trainer ([a-z]+)', text):
        assert word in commands.COMMANDS, word
    for module in re.findall(r'-m (estimator_trainer\.[a-z_.]+[a-z])', text):
        path = ROOT / module.replace('.', '/')
        assert path.with_suffix('.py').exists() or (path / '__main__.py').exists(), module
    for path in re.findall(r'(?<![\w./])(?:configs|deploy|docs)/[\w./-]+\w', text):
        assert (ROOT / path).exists(), path


def test_the_codes_are_an_api():
    assert (exit_codes.OK, exit_codes.FAILED, exit_codes.USAGE, exit_codes.NO_DATA) == (0, 1, 64, 66)
    assert (exit_codes.INTERRUPTED, exit_codes.TERMINATED) == (130, 143)
    constants = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert constants == set(exit_codes.MEANINGS)


@pytest.mark.parametrize('code', exit_codes.MEANINGS)
def test_a_known_code_is_described(code):
    assert exit_codes.describe(code) == exit_codes.MEANINGS[code]
    assert exit_codes.retryable(code) == (code >= 128)


def test_our_own_retryable_codes_are_no_signals():
    signals = {128 + number for number in range(1, 65)}
    own = {code for code in exit_codes.MEANINGS if code >= 128}
    assert own & signals == {exit_codes.INTERRUPTED, exit_codes.TERMINATED}
    assert exit_codes.SYMPTOMS < own


@pytest.mark.parametrize(
    'code, said',
    [
        (137, 'killed by signal 9'),
        (139, 'killed by signal 11'),
        (129, 'killed by signal 1'),
        (128, 'unknown exit code'),
        (2, 'unknown exit code'),
        (-1, 'unknown exit code'),
    ],
)
def test_any_other_code_is_described(code, said):
    assert exit_codes.describe(code) == said


def test_who_was_told_to_stop():
    stopped = {code for code in range(256) if exit_codes.was_stopped(code)}
    assert stopped == {129, 130, 143}  # SIGHUP of a supervisor, SIGINT, SIGTERM
    assert not exit_codes.was_stopped(None)

"""docs/recipes.md: its functions build on this TensorFlow; its snippets run, and print the lines of the page (slow)."""

import os
import re
import subprocess
import sys

import launch
import pytest
import recipes
import tensorflow as tf

import estimator_trainer
from estimator_trainer.api import call_flags
from estimator_trainer.compat.patches import estimators
from estimator_trainer.config import trainer_config
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.jobs import input_fns
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.run_params import RunParams

BEGINS, SECTIONS = recipes.read()
HEADINGS = [section.heading for section in SECTIONS]
EXAMPLES = launch.REPOSITORY / 'docs' / 'examples'
TOGETHER = 5
BOUND_SECS = 560


class Trained(Exception):
    """A snippet has called train."""


def test_each_section_has_a_snippet_and_its_line():
    assert len(SECTIONS) >= 20 and len(set(HEADINGS)) == len(HEADINGS)
    assert all(section.blocks and section.lines for section in SECTIONS)


def test_each_section_is_in_the_list_at_the_top():
    anchors = [re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-') for heading in HEADINGS]
    links = re.findall(r'\]\(#([^)]*)\)', recipes.PAGE.read_text().partition('\n## ')[0])
    assert sorted(links) == sorted(anchors)


def build(job, folder):
    """The graphs of a training, of an evaluation and, if the job exports, of an export."""
    params = RunParams(job.params, 8, 1, 1, 8, max_steps=20, num_examples=100, seed=1)
    for mode in ('train', 'eval', *(['infer'] if job.serving_input_fn else [])):
        estimator = exact_evaluation.estimator_of(job, params, tf.estimator.RunConfig(str(folder)))
        with tf.Graph().as_default():
            tf.compat.v1.train.create_global_step()
            if mode == 'infer':
                features, labels = input_fns.serving(job.serving_input_fn)(params.as_dict()).features, None
            else:
                batches = input_fns.by_name(job.input_fn)(mode, params.as_dict())
                features, labels = tf.compat.v1.data.make_initializable_iterator(batches).get_next()
            spec = estimators.call_model_fn(estimator, features, labels, mode)
            assert spec.export_outputs if mode == 'infer' else spec.loss is not None


@pytest.mark.parametrize('section', SECTIONS, ids=HEADINGS)
def test_its_job_builds(section, tmp_path, monkeypatch):
    def train(job, model_dir, **flags):
        flags.pop('params', None)
        words = call_flags.words(trainer_config.TrainerConfig, {'model_dir': model_dir, **flags})
        trainer_config.parse(['train', *words])
        if isinstance(job, Job) and job.input_fn:
            build(job, tmp_path / 'empty')
        raise Trained

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(estimator_trainer, 'train', train, raising=False)
    if 'old/' in section.blocks[0][1]:
        recipes.make_old_checkpoint()
    for text in (text for language, text in section.blocks if language == 'python'):
        with pytest.raises(Trained):
            exec(f'{BEGINS}\n{text}', {'__name__': 'a_snippet'})


@pytest.mark.slow
@pytest.mark.parametrize('first', range(0, len(SECTIONS), TOGETHER))
def test_snippets_run(first, tmp_path):
    numbers = range(first, min(first + TOGETHER, len(SECTIONS)))
    path = os.pathsep.join([str(launch.REPOSITORY), str(EXAMPLES)])
    done = subprocess.run(
        [sys.executable, str(launch.REPOSITORY / 'tests' / 'end_to_end' / 'recipes.py'), *map(str, numbers)],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': path, 'PYTHONUNBUFFERED': '1'},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND_SECS,
    )
    found = recipes.outputs(done.stdout)
    missing = {heading: SECTIONS[HEADINGS.index(heading)].missing(output) for heading, output in found.items()}
    assert done.returncode == 0 and not any(missing.values()) and len(found) == len(numbers), (missing, done.stdout)

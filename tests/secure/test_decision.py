"""Whether a task is secured: --secure, and what is known of the task and its machine."""

import dataclasses

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.secure import decision
from estimator_trainer.secure.decision import Facts, decide

TWO = ('10.0.0.1', '10.0.0.2')
PROBLEMS = {  # a fact that prevents it -> how the reason begins, and a word of the cure
    'needs_network=--train_files=s3://a': ('--train_files=s3://a needs a network', '--secure=off'),
    'uses_nccl': ('workers with GPUs exchange gradients by NCCL', 'firewall'),
    'shares_folder=': ("the model_dir is in a store, where the run's key must not be", '--secure_key_file'),
    'is_command=': ('the trainer was started by another program', 'python -m estimator_trainer'),
    'has_cryptography=': ('the package cryptography is not installed', 'estimator-trainer[secure]'),
    'no_namespace=unshare: x': ('no network namespace can be had here (unshare: x)', 'docs/security.md'),
    'no_key=the file system of /a is public': ('the file system of /a is public', '--secure_key_file'),
}


def facts(text, hosts=TWO):
    name, _, value = text.partition('=')
    return Facts(hosts, **{name: (value or '=' not in text)})


@pytest.mark.parametrize('mode', ['auto', 'required'])
def test_tasks_on_several_machines_are_secured(mode):
    assert decide(mode, Facts(TWO)) == decision.Decision(True, decision.ON)


@pytest.mark.parametrize('text', PROBLEMS)
def test_auto_goes_on_without_and_says_why(text):
    why, _ = PROBLEMS[text]
    decided = decide('auto', facts(text))
    assert not decided.is_on
    assert decided.note.startswith(f'not secured ({why}')
    assert 'runs code in the job' in decided.note


@pytest.mark.parametrize('text', PROBLEMS)
def test_required_is_refused_in_one_sentence_with_a_cure(text):
    why, cure = PROBLEMS[text]
    with pytest.raises(UsageError) as refused:
        decide('required', facts(text))
    said = str(refused.value)
    assert said.startswith(f'--secure=required: {why}')
    assert cure in said
    assert said.endswith('.') and said.count('. ') == 0


def test_a_key_file_replaces_the_shared_folder():
    assert decide('required', Facts(TWO, shares_folder=False, has_key_file=True)).is_on


def test_off_says_what_is_open():
    assert decide('off', Facts(TWO)).note == f'not secured (--secure=off): {decision.EXPOSED}'


@pytest.mark.parametrize('mode', decision.MODES)
@pytest.mark.parametrize('text', ['', *PROBLEMS])
def test_who_opens_no_port_or_is_isolated_needs_nothing(mode, text):
    known = facts(text, ()) if text else Facts(())
    assert decide(mode, known) == decision.Decision(False)
    said = decision.ISOLATED if mode == 'required' else ''
    assert decide(mode, dataclasses.replace(known, hosts=TWO, is_isolated=True)) == decision.Decision(False, said)


@pytest.mark.parametrize('text', ['', *PROBLEMS])
def test_on_one_machine_auto_does_nothing_and_required_secures(text):
    one = ('localhost', '127.0.0.1')
    known = facts(text, one) if text else Facts(one)
    assert decide('auto', known) == decision.Decision(False)
    assert decide('off', known) == decision.Decision(False)
    if not text:
        assert decide('required', known).is_on


@pytest.mark.parametrize(
    'hosts, several',
    [
        ((), False),
        (('a', 'A'), False),
        (('a', 'b'), True),
        (('localhost', '127.0.0.1', '127.0.1.1', '[::1]', 'ip6-localhost'), False),
        (('localhost', 'a'), True),
        (('[fd00::1]', '[fd00::2]'), True),
    ],
)
def test_several_machines(hosts, several):
    assert decision.on_several_machines(hosts) is several

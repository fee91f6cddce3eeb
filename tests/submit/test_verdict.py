"""What follows the end of a gang, by its code, its tasks' error files and what was decided before."""

import json

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.submit import verdict


class Gang:
    """A job in tmp_path: the n-th call is its n-th attempt."""

    def __init__(self, folder, capsys):
        self.model_dir, self.logs, self.capsys = folder / 'model', folder / 'logs', capsys
        self.model_dir.mkdir()
        self.attempt = 0

    def ends(self, code, *errors, checkpoint=None, max_restarts=3, roles='worker:2'):
        """(exit code of the verdict, what it said). `errors`: (task, code, more of its error file)."""
        if checkpoint is not None:
            (self.model_dir / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{checkpoint}"\n')
        folder = self.logs / str(self.attempt)
        folder.mkdir(parents=True)
        for rank, (task, own, more) in enumerate(errors):
            (folder / f'{rank}.error.json').write_text(json.dumps({'task': task, 'code': own, **more}))
        exit_code = verdict.main(
            [
                f'--model_dir={self.model_dir}',
                f'--folder={self.logs}',
                f'--attempt={self.attempt}',
                f'--roles={roles}',
                f'--max_restarts={max_restarts}',
                str(code),
            ],
            now=lambda: 1000.0 + self.attempt,
        )
        self.attempt += 1
        return exit_code, self.capsys.readouterr().err


@pytest.fixture
def gang(tmp_path, capsys):
    return Gang(tmp_path, capsys)


def test_done(gang):
    assert gang.ends(0) == (0, '')


def test_preempted(gang):
    code, said = gang.ends(143, ('worker:0', 143, {'message': 'stopped by SIGTERM'}), ('worker:1', 143, {}))
    assert code == verdict.AGAIN
    assert said == 'again, 1 of 3 without a new checkpoint: worker:0, exit code 143: stopped by SIGTERM\n'


def test_killed_without_an_error_file(gang):
    lost = ('worker:0', 193, {'peer': 'worker:1', 'message': 'lost worker:1'})
    code, said = gang.ends(193, lost)
    assert (code, 'worker:1 was lost' in said) == (verdict.AGAIN, True)


def test_nobody_left_a_word(gang):
    assert gang.ends(137) == (
        verdict.AGAIN,
        'again, 1 of 3 without a new checkpoint: killed by signal 9; 2 of 2 tasks left no word (killed, or done)\n',
    )


def test_the_code_of_a_task_is_not_taken_for_the_order_to_start_again(gang):
    code, said = gang.ends(verdict.AGAIN, max_restarts=0)
    assert code == exit_codes.FAILED and said.startswith('the end, ')


def test_who_has_told_twice_counts_once(gang):
    lost = ('worker:0', 193, {'message': 'lost worker:1', 'peer': 'worker:1'})
    assert '; 1 of 2 tasks left no word' in gang.ends(193, lost, lost)[1]


def test_the_cause_counts_and_not_the_highest_code(gang):
    code, said = gang.ends(193, ('worker:0', 193, {'peer': 'worker:1'}), ('worker:1', 70, {'message': 'NaN'}))
    assert code == 70
    assert said == 'the end, the same command would fail the same way: worker:1, exit code 70: NaN\n'


def test_an_exception_is_tried_once_more(gang):
    error = ('worker:1', 1, {'step': 5, 'message': 'ValueError: x'})
    assert gang.ends(193, error)[0] == verdict.AGAIN
    code, said = gang.ends(193, error, checkpoint=4)
    assert (code, 'an exception again' in said) == (1, True)


def test_restarts_without_a_checkpoint_are_bounded(gang):
    codes = [gang.ends(193)[0] for _ in range(4)]
    assert codes == [verdict.AGAIN] * 3 + [197]


def test_a_new_checkpoint_gives_them_back(gang):
    codes = [gang.ends(143, checkpoint=step)[0] for step in (10, 20, 20, 20, 30, 30, 30, 30)]
    assert codes == [verdict.AGAIN] * 7 + [197]


def test_after_a_fall_back_progress_counts_from_the_older_checkpoint(gang):
    gang.ends(143, checkpoint=100)
    codes = [gang.ends(143, checkpoint=step)[0] for step in (10, 10, 20, 20, 20, 20)]
    assert codes == [verdict.AGAIN] * 5 + [197]


def test_never(gang):
    code, said = gang.ends(143, max_restarts=0)
    assert (code, 'restarts are off' in said) == (143, True)


def test_a_new_job_of_the_same_number_starts_anew(gang):
    for _ in range(3):
        gang.ends(193)
    for folder in gang.logs.iterdir():
        if folder.is_dir():
            folder.rename(folder.with_name(f'old-{folder.name}'))
    gang.attempt = 0
    assert gang.ends(193)[1].startswith('again, 1 of 3')


@pytest.mark.parametrize('text', ['', '[]', '{"task": 3, "code": 1}', '{"task": "worker:0", "code": "1"}'])
def test_a_spoiled_error_file_is_none(gang, text):
    (gang.logs / '0').mkdir(parents=True)
    (gang.logs / '0' / '0.error.json').write_text(text)
    assert verdict.ends(gang.logs / '0') == []


ROLES = ['worker:3', 'worker:2,evaluator:1', 'chief:1,worker:2,ps:1', 'chief:1,worker:2,ps:1,evaluator:1']


@pytest.mark.parametrize('roles', ROLES)
@pytest.mark.parametrize('task, code', [('worker:1', 143), ('worker:1', 137), ('evaluator:0', 137), ('ps:0', 143)])
def test_nobody_restarts_alone_so_a_new_checkpoint_counts_whoever_failed(gang, roles, task, code):
    """Slurm restarts all tasks: what the run has achieved does not depend on who was preempted."""
    codes = [gang.ends(code, (task, code, {}), checkpoint=step, roles=roles)[0] for step in (1, 2, 3, 4, 5, 6)]
    assert codes == [verdict.AGAIN] * 6
    codes = [gang.ends(code, (task, code, {}), checkpoint=6, roles=roles)[0] for _ in range(3)]
    assert codes == [verdict.AGAIN] * 2 + [exit_codes.RESTARTS_SPENT]

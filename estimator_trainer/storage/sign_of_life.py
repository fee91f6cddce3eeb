"""What an evaluator on another machine gets as training.json. Pure: time is an argument.

If training.json does not change for --lost_peer_secs, an evaluator takes the chief for lost. In the store that file
changes more rarely, and not at all while a large checkpoint is sent. But the chief's lease is renewed for as long as
the chief lives. So the evaluator's training.json changes when the lease does.
"""

from estimator_trainer.run_dir import training_file


def is_over(training: dict) -> bool:
    """Whether training has ended or was stopped, says training.json."""
    return training.get('state') in (training_file.ENDED, training_file.STOPPED)


class SignOfLife:
    """Joins the chief's training.json and its lease.

    Args:
        fresh_secs: a chief whose lease had not changed for so long when it was last looked at may be gone.
    """

    def __init__(self, fresh_secs: float):
        self._fresh_secs = fresh_secs
        self._training: dict = {}
        self._lease: tuple = ()  # the one heard last: token, beat
        self._heard_at = self._changed_at = 0.0
        self._beat, self._lives = 0, False

    def hear(self, lease: dict, training: dict, now: float) -> None:
        """What the store has: first the lease was read, then training.json.

        A training.json of another generation than the lease's is one that an earlier chief has left: it tells of no
        life.
        """
        beat = lease.get('token'), lease.get('beat')
        is_current = bool(lease.get('gang')) and training.get('generation') == lease['gang']
        self._lives = is_current and not is_over(training)
        if beat != self._lease:
            self._changed_at = now
            self._beat += self._lives
        self._training, self._lease, self._heard_at = training, beat, now

    def wait(self) -> None:
        """Nothing can be heard now, for a reason that is not the chief's."""
        if self._lives and self._heard_at - self._changed_at < self._fresh_secs:
            self._beat += 1

    def content(self) -> dict:
        """What training.json is to hold; {}: nothing is known yet."""
        return {**self._training, 'beat': self._beat} if self._lives else self._training

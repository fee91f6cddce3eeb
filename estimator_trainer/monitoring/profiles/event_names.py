"""The names of the events that the trainer adds to a profile."""

BEGIN = 'profile begins'  # once
CALL = 'training steps'  # around each call of TensorFlow, with the numbers of its steps:
FIRST, LAST = 'first', 'last'
ADD_UP = 'all-reduce in shared memory'

"""One job description, rendered for and submitted to the engines of other people's clusters.

`description.py` is what the YAML file says; each of `slurm_script`, `kubernetes_objects` and `ray_job` has

    render(description) -> {file name: text}           the same text for the same description
    submit(description, folder, run) -> exit code      what `render` gives lies in `folder`

where `run` is subprocess.run.

Nothing in here imports TensorFlow, nor a client library of an engine.
"""

import estimator_trainer.own_tf_config  # noqa: F401 -- parts of this package run as `python -m` in a folder of the job

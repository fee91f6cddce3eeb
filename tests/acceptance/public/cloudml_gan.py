"""GoogleCloudPlatform/cloudml-samples: the GAN among its templates for TPUs. 2019, TensorFlow 1.12."""

REPOSITORY = 'GoogleCloudPlatform/cloudml-samples'
REF = 'c079793582c57538f1df57f10167758e1f5ae057'
MODE = '--tf1'
SUBTREE = ('tpu/templates/tpu_gan_estimator',)
STOPS = 'tf.contrib.gan'


def command(source, folder):
    return ['tpu/templates/tpu_gan_estimator/trainer.py', f'--model-dir={folder}/model']

"""Spleeter's `train` and `Separator` on noise; arrays take the place of audio files, so that no ffmpeg is needed."""

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf
from spleeter.__main__ import train
from spleeter.audio.adapter import AudioAdapter
from spleeter.separator import Separator

SECONDS, RATE = 6, 44100


class Noise(AudioAdapter):
    """Noise instead of a file."""

    def load(self, audio_descriptor, offset=None, duration=None, sample_rate=None, dtype=b'float32'):
        noise = np.random.RandomState(len(audio_descriptor)).uniform(-0.5, 0.5, (int((duration or SECONDS) * RATE), 2))
        return noise.astype(np.float32), RATE

    def save(self, path, data, sample_rate, codec=None, bitrate=None):
        raise NotImplementedError


folder = pathlib.Path(sys.argv[1])
songs = ['mix_path,vocals_path,other_path,duration', *(f'{n}/mix,{n}/vocals,{n}/other,{SECONDS}' for n in range(2))]
(folder / 'songs.csv').write_text('\n'.join(songs))
settings = {
    **{'mix_name': 'mix', 'instrument_list': ['vocals', 'other'], 'sample_rate': RATE, 'n_channels': 2},
    **{'frame_length': 4096, 'frame_step': 1024, 'T': 128, 'F': 128, 'chunk_duration': 4, 'n_chunks_per_song': 1},
    **{'separation_exponent': 2, 'mask_extension': 'zeros', 'learning_rate': 1e-4, 'batch_size': 2, 'random_seed': 0},
    **{'train_max_steps': 4, 'throttle_secs': 20, 'save_checkpoints_steps': 4, 'save_summary_steps': 2},
    'model': {'type': 'unet.unet', 'params': {'conv_activation': 'ELU', 'deconv_activation': 'ELU'}},
    **{'train_csv': str(folder / 'songs.csv'), 'validation_csv': str(folder / 'songs.csv')},
    **{'model_dir': str(folder / 'model'), 'training_cache': str(folder / 'cache/training')},
    'validation_cache': str(folder / 'cache/validation'),
}
(folder / 'settings.json').write_text(json.dumps(settings))
train(adapter='__main__.Noise', data=str(folder), params_filename=str(folder / 'settings.json'), verbose=False)
assert tf.train.load_variable(settings['model_dir'], 'global_step') == 4
sources = Separator(str(folder / 'settings.json')).separate(Noise().load('0/mix')[0])
assert sources['vocals'].shape == sources['other'].shape == (SECONDS * RATE, 2)
loudness = ' '.join(f'{np.abs(sources[name]).mean():.4f}' for name in ('vocals', 'other'))
print(f'TensorFlow {tf.__version__}: Spleeter separates noise into parts of loudness {loudness}')

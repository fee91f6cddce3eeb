"""README.md in the folder of a migrated canned Estimator: how plain TensorFlow opens the model."""

NAME = 'README.md'
IMPORTS = 'import feature_layers, estimator_optimizers'  # which bring the layers and update rules of the model

_TEXT = """\
# {kind}, step {step}, as a model of Keras {keras}

`python -m estimator_trainer migrate` has made these files of an Estimator's checkpoint. They need TensorFlow and
Keras 3, and nothing of estimator_trainer. Keep them together: the model has layers of its own, which the Python files
here hold. Start Python in this folder, or put it on PYTHONPATH. Without the first line Keras ends with a TypeError.

```python
{imports}
import keras

model = keras.models.load_model('serving.keras')  # features -> predictions
```

| file | what it is |
|---|---|
| `serving.keras` | from features to predictions, with the names of the Estimator |
| `model.keras` | from features to logits, compiled: `fit` goes on with the Estimator's slots |
| `dataset.py` | `dataset.map(for_keras)` makes the batches of the Estimator's input_fn those of `model.keras` |
| `saved_model/` | the Estimator's signatures; `tf.saved_model.load` needs none of the Python files |
| the other `*.py` | layers, heads and update rules. They are yours, and you may change them |
| `migrate.json` | which variables were taken over, and how much the results differ |

`python -m estimator_trainer migrate --from_keras --model_dir=THIS_FOLDER --to=FOLDER` makes an Estimator's checkpoint.
"""


def text(kind: str, step: int, keras: str) -> str:
    return _TEXT.format(kind=kind, step=step, keras=keras, imports=IMPORTS)


def how_to_open(folder: str) -> str:
    """The same in a line."""
    return f'to open the models, put {folder} on PYTHONPATH and begin with `{IMPORTS}`; {folder}/{NAME} shows it'

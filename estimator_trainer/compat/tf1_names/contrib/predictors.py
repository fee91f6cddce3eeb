"""tf.contrib.predictor: a function from arrays to arrays that keeps a model's session open between its calls.

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/predictor
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1
_DEFAULT_KEY = 'serving_default'


class Predictor:
    """Calls a model. The graph and the session stay until the object is gone."""

    def __init__(
        self,
        graph: tf.Graph,
        session: tf.compat.v1.Session,
        feed_tensors: dict[str, tf.Tensor],
        fetch_tensors: dict[str, tf.Tensor],
    ) -> None:
        self._graph, self._session = graph, session
        self._feed_tensors, self._fetch_tensors = feed_tensors, fetch_tensors

    @property
    def graph(self) -> tf.Graph:
        return self._graph

    @property
    def session(self) -> tf.compat.v1.Session:
        return self._session

    @property
    def feed_tensors(self) -> dict:
        return self._feed_tensors

    @property
    def fetch_tensors(self) -> dict:
        return self._fetch_tensors

    def __call__(self, input_dict: Mapping[str, Any]) -> dict:
        """{output: array} for {input: array}.

        Raises:
            ValueError: there is no such input.
        """
        unexpected = sorted(input_dict.keys() - self._feed_tensors.keys())
        if unexpected:
            raise ValueError(f'Got unexpected keys in input_dict: {unexpected}; expected: {sorted(self._feed_tensors)}')
        fed = {self._feed_tensors[name]: value for name, value in input_dict.items() if value is not None}
        return self._session.run(self._fetch_tensors, fed)


class SavedModelPredictor(Predictor):
    """One signature of an exported model."""

    def __init__(
        self,
        export_dir: str,
        signature_def_key: str | None = None,
        signature_def: Any = None,
        input_names: dict[str, str] | None = None,
        output_names: dict[str, str] | None = None,
        tags: str | None = None,
        graph: tf.Graph | None = None,
        config: tf.compat.v1.ConfigProto | None = None,
    ) -> None:
        _check(signature_def_key, signature_def, input_names, output_names)
        graph = graph or tf.Graph()
        with graph.as_default():
            session = _v1.Session(config=config)
            loaded = _v1.saved_model.loader.load(session, (tags or 'serve').split(','), export_dir)
        if input_names is None:
            signature_def = signature_def or _signature(loaded.signature_def, signature_def_key or _DEFAULT_KEY)
            input_names, output_names = _names(signature_def.inputs), _names(signature_def.outputs)
        assert output_names is not None  # as _check has seen
        super().__init__(graph, session, _tensors(graph, input_names), _tensors(graph, output_names))


class CoreEstimatorPredictor(Predictor):
    """One output of an Estimator, with the weights of its last checkpoint."""

    def __init__(
        self,
        estimator: tf.estimator.Estimator,
        prediction_input_fn: Callable[..., Any],
        output_key: str | None = None,
        graph: tf.Graph | None = None,
        config: tf.compat.v1.ConfigProto | None = None,
    ) -> None:
        if not isinstance(estimator, (tf.estimator.Estimator, _v1.estimator.Estimator)):
            raise TypeError(f'from_estimator needs an Estimator of tf.estimator, and this is a {type(estimator)}')
        graph = graph or tf.Graph()
        with graph.as_default():
            receiver = prediction_input_fn()
            spec = estimator.model_fn(receiver.features, None, tf.estimator.ModeKeys.PREDICT, estimator.config)
            output = _signature(spec.export_outputs or {}, output_key or _DEFAULT_KEY)
            signature_def = output.as_signature_def(receiver.receiver_tensors)
            session = _v1.train.MonitoredSession(
                _v1.train.ChiefSessionCreator(
                    spec.scaffold, config=config, checkpoint_filename_with_path=estimator.latest_checkpoint()
                )
            )
        super().__init__(
            graph,
            session,
            _tensors(graph, _names(signature_def.inputs)),
            _tensors(graph, _names(signature_def.outputs)),
        )


def from_saved_model(
    export_dir: str,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: dict[str, str] | None = None,
    output_names: dict[str, str] | None = None,
    tags: str | None = None,
    graph: tf.Graph | None = None,
    config: tf.compat.v1.ConfigProto | None = None,
) -> SavedModelPredictor:
    """A predictor of an exported model.

    Args:
        export_dir: the folder of the SavedModel.
        signature_def_key: the name of a signature; 'serving_default' unless another of these three is given.
        signature_def: a signature.
        input_names: {name: name of a tensor}; needs output_names.
        output_names: the same for what is computed.
        tags: with commas between them; 'serve' otherwise.
        graph: where the model is loaded; a graph of its own otherwise.
        config: a ConfigProto for the session.

    Raises:
        ValueError: there is no such signature; the message names those that are there.
    """
    return SavedModelPredictor(
        export_dir, signature_def_key, signature_def, input_names, output_names, tags, graph, config
    )


def from_estimator(
    estimator: tf.estimator.Estimator,
    serving_input_receiver_fn: Callable[..., Any],
    output_key: str | None = None,
    graph: tf.Graph | None = None,
    config: tf.compat.v1.ConfigProto | None = None,
) -> CoreEstimatorPredictor:
    """A predictor of an Estimator.

    Args:
        estimator: one of tf.estimator.
        serving_input_receiver_fn: makes the placeholders, as for an export.
        output_key: the name of one of the model's export_outputs; the default one otherwise.
        graph: where the model is built; a graph of its own otherwise.
        config: a ConfigProto for the session.
    """
    return CoreEstimatorPredictor(estimator, serving_input_receiver_fn, output_key, graph, config)


def _check(
    signature_def_key: str | None,
    signature_def: Any,
    input_names: dict[str, str] | None,
    output_names: dict[str, str] | None,
) -> None:
    if signature_def_key is not None and signature_def is not None:
        raise ValueError('Give a signature_def_key or a signature_def, not both.')
    if (input_names is None) != (output_names is None):
        raise ValueError('input_names and output_names go together.')
    if input_names is not None and (signature_def_key is not None or signature_def is not None):
        raise ValueError('With input_names and output_names, a signature says nothing: give the one or the other.')


def _signature(signatures: Mapping[str, Any], key: str) -> Any:
    if key not in signatures:
        raise ValueError(f'There is no signature "{key}". There are: {", ".join(sorted(signatures))}')
    return signatures[key]


def _names(tensor_infos: Mapping[str, Any]) -> dict[str, str]:
    return {name: info.name for name, info in tensor_infos.items()}


def _tensors(graph: tf.Graph, names: Mapping[str, str]) -> dict[str, tf.Tensor]:
    return {name: graph.get_tensor_by_name(tensor) for name, tensor in names.items()}

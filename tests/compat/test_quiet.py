"""Which lines of TensorFlow's import are shown. Lines as TensorFlow 2.15, 2.21 and 2.22.0rc0 write them."""

from estimator_trainer.compat import quiet

OF_NO_USE = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795669047.221046    1455 port.cc:153] oneDNN custom operations are on. You may see slightly different
I0000 00:00:1795669047.270300    1455 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU
To enable the following instructions: AVX2, in other operations, rebuild TensorFlow with the appropriate flags.
E0000 00:00:1795669051.543755    1455 cuda_platform.cc:57] failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)
=== Source Location Trace: ===
external/xla/xla/stream_executor/cuda/cuda_status.cc:50

2026-11-26 05:00:00.1: I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized to use
To enable the following instructions: AVX2, in other operations, rebuild TensorFlow with the appropriate flags.
"""
OF_USE = b"""\
E0000 00:00:1795669051.543755    1455 other.cc:57] the disk is full: RESOURCE_EXHAUSTED
=== Source Location Trace: ===
external/xla/xla/other.cc:50

a plugin says something
"""


def test_what_does_not_help_is_hidden_to_its_last_line():
    assert list(quiet.of_use(OF_NO_USE.splitlines(keepends=True))) == []


def test_everything_else_is_shown_with_the_lines_that_go_on_with_it():
    lines = OF_USE.splitlines(keepends=True)
    assert list(quiet.of_use(lines)) == lines
    mixed = list(quiet.of_use([*OF_NO_USE.splitlines(keepends=True), *lines]))
    assert mixed == lines


def test_a_variable_of_tensorflow_1_in_a_saved_model_is_no_news():
    assert not quiet.helps(
        "Unable to create a python object for variable <tf.Variable 'w:0' shape=() dtype=float32_ref> because it is a "
        'reference variable. It may not be visible to training APIs. If this is a problem, consider rebuilding the '
        'SavedModel after running tf.compat.v1.enable_resource_variables().'
    )
    assert quiet.helps('Unable to read a variable')

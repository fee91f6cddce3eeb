"""--mixed_precision: what trains in 16 bits, and where nothing does. Imports no TensorFlow.

An Estimator's graph is rewritten by TensorFlow, on CPUs only. The layers of a Keras model get a dtype policy. With
float16 the loss is scaled as well (`training/loss_scaling.py`).
"""

BFLOAT16, FLOAT16 = 'bfloat16', 'float16'
KINDS = (BFLOAT16, FLOAT16)
FIRST_SCALE, LEAST_SCALE = 2.0**15, 1.0  # of the loss; these are Keras's numbers
GROWTH_STEPS = 2000  # so many steps with finite gradients in a row double the scale
REWRITE = 'auto_mixed_precision_onednn_bfloat16'
_INSTRUCTIONS = {'avx512_bf16', 'amx_bf16', 'bf16'}  # of CPUs, as /proc/cpuinfo calls them; the last one is ARM's


def sentence(kind: str | None, loop: str) -> str:
    """What acts, for the log and --dry_run; '' for float32."""
    if kind is None:
        return ''
    how = f"by TensorFlow's rewrite {REWRITE}, on CPUs" if loop == 'estimator' else f"by Keras's policy mixed_{kind}"
    scaled = f', the loss scaled dynamically from {FIRST_SCALE:,.0f} on' if kind == FLOAT16 else ''
    return f'precision: {kind} {how}{scaled}; weights, evaluations and exports are float32'


def refusal(kind: str | None, loop: str) -> str | None:
    """Why a --loop cannot train in this type; None: it can."""
    if kind != FLOAT16 or loop != 'estimator':
        return None
    return (
        '--mixed_precision=float16 with --loop=estimator: the gradients of float16 need a scaled loss, and the loss is '
        "the model_fn's; use --mixed_precision=bfloat16, or --loop=keras_fit or custom_loop, or let the model_fn wrap "
        'its optimizer in tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer (docs/recipes.md).'
    )


def warning(kind: str | None, loop: str, has_gpu: bool, cpu_flags: str) -> str | None:
    """Why training in 16 bits is not faster here; None: it may be.

    Args:
        has_gpu: whether the replicas are on GPUs.
        cpu_flags: words, the instructions of the CPU; '' if they are not known.
    """
    if kind is None:
        return None
    if loop == 'estimator' and has_gpu:
        return (
            f"--mixed_precision={kind}: for Estimators TensorFlow's rewrite acts on CPUs only, and this task computes "
            'on a GPU in float32; use a Keras loop.'
        )
    if kind == FLOAT16 and not has_gpu:
        return '--mixed_precision=float16: a CPU is not faster with it, only GPUs are; a CPU may be with bfloat16.'
    if not has_gpu and cpu_flags and not _INSTRUCTIONS & set(cpu_flags.split()):
        return f'--mixed_precision={kind}: this CPU has no instructions for it, and will not be faster with it.'
    return None


def repeated(step: int, new: int, total: int, scale: float) -> str:
    """Says that gradients of float16 have overflowed.

    Args:
        step: the last one that was taken.
        new, total: attempts that were repeated since this was last said, and since the start.
        scale: of the loss, from now on.
    """
    so_far = f' ({total:,} since the start)' if total > new else ''
    return (
        f'precision: until step {step:,} the gradients of {new:,} attempt(s) overflowed{so_far}, and each batch was '
        f'computed again with half the loss scale, which is {scale:,.0f} now'
    )


def counted(kind: str, computing: int, casts: int) -> tuple[bool, str]:
    """-> (whether the rewrite has done something, what it has made of a step)

    Args:
        computing, casts: operations of a step that compute in 16 bits, and that convert from or to them.
    """
    if not computing:
        return False, f'--mixed_precision={kind}: TensorFlow computes no operation of a step in {kind} here.'
    return True, f'precision: {computing} operations of a step compute in {kind}, {casts} convert'

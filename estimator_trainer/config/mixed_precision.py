"""--mixed_precision: what trains in 16 bits, and where nothing does. Imports no TensorFlow.

An Estimator's graph is rewritten by TensorFlow, on CPUs only. The layers of a Keras model get a dtype policy.
"""

KINDS = ('bfloat16',)
REWRITE = 'auto_mixed_precision_onednn_bfloat16'
_INSTRUCTIONS = {'avx512_bf16', 'amx_bf16', 'bf16'}  # of CPUs, as /proc/cpuinfo calls them; the last one is ARM's


def sentence(kind: str | None, loop: str) -> str:
    """What acts, for the log and --dry_run; '' for float32."""
    if kind is None:
        return ''
    how = f"by TensorFlow's rewrite {REWRITE}, on CPUs" if loop == 'estimator' else f"by Keras's policy mixed_{kind}"
    return f'precision: {kind} {how}; weights, evaluations and exports are float32'


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
    if not has_gpu and cpu_flags and not _INSTRUCTIONS & set(cpu_flags.split()):
        return f'--mixed_precision={kind}: this CPU has no instructions for it, and will not be faster with it.'
    return None


def counted(kind: str, computing: int, casts: int) -> tuple[bool, str]:
    """-> (whether the rewrite has done something, what it has made of a step)

    Args:
        computing, casts: operations of a step that compute in 16 bits, and that convert from or to them.
    """
    if not computing:
        return False, f'--mixed_precision={kind}: TensorFlow computes no operation of a step in {kind} here.'
    return True, f'precision: {computing} operations of a step compute in {kind}, {casts} convert'

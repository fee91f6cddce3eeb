"""One process that predicts: it takes every N-th part of the rows.

    python -m estimator_trainer.tools.predict.worker FOLDER NUMBER PROCESSES

Only `children` starts it. It reads FOLDER/plan.json, and writes what it has done as lines of JSON to its stdout:

    {"rows": 100000, "there": 20000, "signature": "predict"}   once: all rows, and those that were predicted before
    {"done": 1024}                                             rows that it has predicted since the last such line
"""

import concurrent.futures
import json
import os
import sys
from collections.abc import Callable

from estimator_trainer import compat, exit_codes
from estimator_trainer.errors import BadExample, DatasetError, UsageError
from estimator_trainer.run_dir import file_errors
from estimator_trainer.this_process import log
from estimator_trainer.tools.predict import predict_plan as plans
from estimator_trainer.tools.predict.parts import Parts


def main(argv) -> int:
    """The exit code. Anything but 0 comes with a last line on stderr that says why."""
    folder, number, processes = argv[0], int(argv[1]), int(argv[2])
    report = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is for people

    def tell(**what):
        print(json.dumps(what), file=report, flush=True)

    try:
        plan = plans.load(os.path.join(folder, plans.NAME))
        compat.bring_up()
        log.set_up()
        return predict(plan, folder, number, processes, tell)
    except UsageError as error:
        return _fail(exit_codes.USAGE, str(error))
    except DatasetError as error:
        return _fail(error.exit_code, str(error))
    except BadExample as error:
        return _fail(exit_codes.DAMAGED, str(error))
    except OSError as error:
        where = f'{error.filename}: ' if error.filename else ''
        return _fail(
            file_errors.exit_code(error.errno), f'{where}{error.strerror or error}; {file_errors.cure(error.errno)}'
        )


def _fail(code, text) -> int:
    print(f'error: {text}', file=sys.stderr)
    return code


def predict(plan: plans.PredictPlan, folder: str, number: int, processes: int, tell: Callable[..., None]) -> int:
    """Predicts the parts of process `number` that are not there yet, and returns 0. `tell` reports fields by name.

    Raises:
        UsageError: the model, the files, the key and the outputs do not go together.
        DatasetError, BadExample: the files cannot be read, or the model fails on an example.
        OSError: a part cannot be written.
    """
    from estimator_trainer.tools.predict.examples import Examples
    from estimator_trainer.tools.predict.signature import Model

    model = Model(plan.path(plan.export), plan.signature)
    model.choose(plan.outputs)
    examples = Examples(plan, model, folder)
    parts = Parts(folder, plan.suffix, examples.number, plan.rows_per_part)
    missing = parts.missing()
    there = examples.number - sum(len(parts.range(part)) for part in missing)
    tell(rows=examples.number, there=there, signature=model.name)
    todo = [part for part in missing if part % processes == number]
    for part, batches in _predicted(plan, model, examples, parts, todo, tell):
        parts.write(part, batches)
    return exit_codes.OK


def _predicted(plan, model, examples, parts, todo, tell):
    """(part, the columns of its batches) for each part. One batch is read while the model predicts another."""
    batches = [
        (part, range(first, min(first + plan.batch_size, parts.range(part).stop)))
        for part in todo
        for first in parts.range(part)[:: plan.batch_size]
    ]
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        ahead = [reader.submit(examples.read, rows) for _, rows in batches[:1]]
        held = []
        for place, (part, rows) in enumerate(batches):
            inputs, keys = ahead.pop().result()
            ahead += [reader.submit(examples.read, next_rows) for _, next_rows in batches[place + 1 : place + 2]]
            outputs = _outputs(model, examples, inputs, rows)
            held.append(outputs if keys is None else {_key_column(plan.key, outputs): keys, **outputs})
            tell(done=len(rows))
            if rows.stop == parts.range(part).stop:
                yield part, held
                held = []


def _outputs(model, examples, inputs, rows) -> dict:
    import tensorflow as tf

    from estimator_trainer.tools.predict.signature import first_line

    try:
        return model.predict(inputs, len(rows))
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
        for place, row in enumerate(rows):  # which one is it?
            try:
                model.predict({name: tensor[place : place + 1] for name, tensor in inputs.items()}, 1)
            except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as of_one:
                raise BadExample(
                    f'{examples.where(row)}: the signature {model.name} fails on this example: {first_line(of_one)}; '
                    'mend it'
                ) from error
        raise


def _key_column(key, outputs) -> str:
    """The name of the column of keys, which must not be that of an output."""
    return f'key_{key}' if key in outputs else key


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

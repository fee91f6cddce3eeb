"""Random training steps: calls of several steps compute what single steps compute, whatever the step is made of.

    python -m tests.differential.generated --examples=10000 --seed=1

`grammar` draws programs, `statements` and `control_flow` say what each statement builds, `steps` makes a training step
of a program, `compared` runs it both ways.
"""

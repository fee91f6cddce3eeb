"""What a run writes into its folders, and how: locks, and files of which this process is the only writer.

Imports no TensorFlow, and nothing else of this package but `forks`.
"""

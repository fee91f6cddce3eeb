"""Data in an object store: listed, fetched in blocks, and held in a bounded folder of this machine.

Imports no TensorFlow. docs/files.md, "Files in an object store", says how it behaves.
"""

"""Holds sitecustomize.py and the recorder, which Python finds by this folder's path. Not to be imported."""

"""Tests of the trainer: `python -m unittest discover -s trainer/tests -t trainer`."""

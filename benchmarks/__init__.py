"""Measurements against peers. Not part of the service and not installed with it."""

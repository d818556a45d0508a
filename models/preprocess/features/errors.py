"""Why features could not be made. Clips are counted from one here."""

from __future__ import annotations

from models.preprocess.errors import WaveformError


class FeatureError(WaveformError):
    """The waveforms do not suit the family's features."""


class FeatureCancelled(WaveformError):
    """The request was given up while its features were made."""

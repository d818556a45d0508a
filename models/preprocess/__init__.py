"""The waveform boundary of chat models that hear: encoded clips to bounded, normalised audio.

One path for the command line and for requests: policy, decoding, resampling, features, and the
bounded stage that runs them. NumPy and libsndfile only; knows no MLX and nothing of the service.
"""

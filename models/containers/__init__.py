"""Audio containers by their bytes: headers, and the compressed streams behind them.

Shared by the front door, which bounds uploads before anything runs, and by the waveform boundary of
the models. Knows no limit, no request and no model.
"""

"""The archive's client: finds recordings, has a service transcribe them, and keeps the books."""

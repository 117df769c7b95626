"""The cookbook: advice by advice, measured; see cook.py."""

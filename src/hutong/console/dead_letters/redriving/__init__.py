"""Redriving: dead letters on their way back to the topics they came from, each exactly once.

`machine.py` decides, `driver.py` carries out, `progress.py` is what is committed with each batch.
"""

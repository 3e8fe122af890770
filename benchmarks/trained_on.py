"""Datasets in `data/` with the records that shipped checkpoints for CPUs are trained on."""

from __future__ import annotations

CPUS = (
    *("cpu", "cpu-proposed", "cpu-last", "cpu-zen3", "cpu-zen5", "cpu-zen4"),
    *("samplers-pgs-ebs", "samplers-pgs-random", "samplers-random-ebs"),
    *("samplers-random-random", "samplers-zoo-ebs", "samplers-zoo-random"),
)

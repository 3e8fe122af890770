"""The benchmark of dynamic shapes: sizes, padding, ratios, progress, and a dry run from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.inference.deploy import load as loading
from foretune.inference.deploy.rivals.base import NetworkSource
from support.html import parsed  # noqa: F401
from tvm.support.cc import get_cc

from benchmarks.dynamic import __main__ as subject
from benchmarks.dynamic.buckets import Buckets, Library, Signature, bucket_of, smallest_for, write_buckets
from benchmarks.dynamic.contest import _row, rows_of
from benchmarks.dynamic.libraries import BuildError, Built, Libraries, wanted_libraries
from benchmarks.dynamic.networks import SUBJECTS, Subject, as_word, dry_subject, grid
from benchmarks.dynamic.page import axis_of, write_page
from benchmarks.dynamic.progress import LIBRARY, SIZE, OutOfTime, Progress
from benchmarks.dynamic.summary import network_summary, summary
from benchmarks.tables import dynamic as tables

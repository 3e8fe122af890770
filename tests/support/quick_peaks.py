"""Imported for its effect: the peaks of this machine are measured on small arrays.

No test depends on their values. The measurement takes 3 s of all cores once in each process that tunes or
generates, and four times as much beside other work, such as that of another worker of the tests.
"""

from foretune.dataset.hardware import cpu

cpu._MATRIX_ROWS, cpu._SMALLEST_COPY_BYTES = 256, 8 << 20

"""Imported for its effect: the peaks of this machine are measured on small arrays.

No test depends on their values. Otherwise each process that tunes or generates measures for 3 s on all cores,
and for up to 12 s if other work disturbs it, such as another worker of the tests.
"""

from foretune.dataset.hardware import cpu

cpu._MATRIX_ROWS, cpu._SMALLEST_COPY_BYTES = 256, 8 << 20
cpu._COPIED_SHARE_OF_L3 = 0.0  # servers have hundreds of megabytes

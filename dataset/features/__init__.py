"""Features of candidates: stores, decisions, task and hardware, assembled in `assembly`, read from `table`.

Importing the package does not import TVM: models and training read tables without it.
"""

FEATURE_VERSION = "2"
"""Changes whenever the meaning of any feature changes; a checkpoint serves the version it was trained on."""

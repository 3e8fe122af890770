"""Features of candidates: assembled in `assembly`, stored and batched in `table`.

Importing the package does not import TVM, so models and training read tables without it.
"""

FEATURE_VERSION = "2"
"""Version of the features; change it whenever the meaning of a feature changes. A checkpoint works only with
the version that it was trained on."""

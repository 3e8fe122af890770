"""This process on its machine: threads, deferred Ctrl-C and the user's cache folder."""

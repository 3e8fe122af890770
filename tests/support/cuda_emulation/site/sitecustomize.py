"""Emulated CUDA devices for Python processes that are started with this folder on PYTHONPATH.

Python imports this module at its start. As soon as the process imports TVM, it gets the devices that the
variable CUDA_EMULATION describes; see `worker_environment`.
"""

import importlib.abc
import importlib.util
import json
import os
import sys


class _InstallBehindTvm(importlib.abc.MetaPathFinder):
    """Finder that lets TVM import as usual and then installs the emulation."""

    def find_spec(self, name, path=None, target=None):
        if name != "tvm":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_install(module):
            execute(module)
            from support.cuda_emulation.workers import install_in_worker

            install_in_worker(json.loads(os.environ["CUDA_EMULATION"]))

        spec.loader.exec_module = execute_and_install
        return spec


if "CUDA_EMULATION" in os.environ:
    sys.meta_path.insert(0, _InstallBehindTvm())

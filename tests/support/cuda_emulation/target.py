"""The device that is emulated, as a target."""

from __future__ import annotations

from foretune.compiler.tvm_compat import parse_target

TARGET = parse_target("nvidia/nvidia-a100")

"""Tests of CUDA texts that compile without TVM's headers: the same machine code, else TVM's own way."""

import struct
from importlib.util import find_spec

import pytest
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.tvm_compat import cuda_text, parse_target
from foretune.dataset.measure.worker.toolchain import cuda_environment
from support.programs import DoubledOnCuda
from tvm.support import nvcc

H100 = parse_target("nvidia/nvidia-h100")


def text_of(mod) -> str:
    (module,) = (module for module in compile_module(mod, H100).mod.imports if module.kind == "cuda")
    return module.inspect_source()


def has_nvrtc() -> bool:
    try:
        return find_spec("cuda.bindings.nvrtc") is not None
    except ModuleNotFoundError:
        return False


def section(binary: bytes, name: bytes) -> bytes:
    """Contents of a section of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names = struct.unpack_from("<HHH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", binary, table + number * size) for number in range(count)]
    texts = headers[names][4]
    for offset, _, _, _, start, length in headers:
        begin = texts + offset
        if binary[begin : binary.index(b"\0", begin)] == name:
            return bytes(binary[start : start + length])
    raise AssertionError(f"no section {name!r}")


def test_the_headers_of_a_text_become_definitions():
    text = text_of(DoubledOnCuda)
    light = cuda_text.without_headers(text)
    assert "#include <cuda/std/cstdint>" in text and "#include <cuda.h>" in text
    assert "#include" not in light and "uint32_t;" in light
    assert light.endswith(text[text.index("extern") :])


@pytest.mark.parametrize("text", ["extern int a;", "CUtensorMap", "nvshmem"])
def test_a_text_that_needs_other_headers_is_left_alone(text):
    headers = text_of(DoubledOnCuda).partition("extern")[0]
    assert cuda_text.without_headers(headers + "extern int a;") is not None
    assert cuda_text.without_headers(text if text.startswith("extern") else headers + text) is None


@pytest.mark.parametrize(
    ("mode", "light", "compiled"),
    [("nvrtc", b"light", b"light"), ("nvrtc", None, b"stock"), ("nvcc", b"light", b"stock")],
)
def test_what_does_not_compile_without_headers_is_left_to_tvm(monkeypatch, mode, light, compiled):
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", mode)
    monkeypatch.setattr(cuda_text, "nvrtc_binary", lambda text: light)
    compile_text = cuda_text._light_or(lambda text: b"stock")
    assert compile_text(text_of(DoubledOnCuda)) == compiled


@pytest.mark.skipif(not has_nvrtc(), reason="needs cuda-bindings and NVRTC")
def test_the_machine_code_is_that_of_tvm(monkeypatch):
    for name, value in cuda_environment("nvrtc").items():
        monkeypatch.setenv(name, value)
    text = text_of(DoubledOnCuda)
    with H100:
        light = cuda_text.nvrtc_binary(cuda_text.without_headers(text))
        stock = nvcc.compile_cuda(text, target_format="cubin", compiler="nvrtc")
    assert light is not None
    assert section(light, b".text.main_kernel") == section(stock, b".text.main_kernel")


def test_a_process_compiles_that_way():
    compile_module(DoubledOnCuda, H100)
    cuda_text.compile_without_headers()
    assert tvm.get_global_func(cuda_text.CALLBACK) is not None
    assert cuda_text.compile_without_headers.cache_info().currsize == 1

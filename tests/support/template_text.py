"""CUDA text that does what a template's kernel does, slowly, for the emulation.

It stands where a compiled template has its assembly. The first line is what TVM's caller reads of the latter:
the entry with its parameters. The emulation puts the kernel's name in the place of KERNEL.
"""

from __future__ import annotations

from foretune.dataset.templates.gpu.compilation import Compiled
from foretune.dataset.templates.gpu.problem import BackToBack, Problem, Window
from foretune.dataset.templates.gpu.tiling import Tiling

_TYPES = {"bf16": "unsigned short", "fp32": "float"}
_ACTIVATED = {
    "none": "sum",
    "relu": "sum > 0 ? sum : 0",
    "gelu": "0.5f * sum * (1.0f + erff(sum * 0.70710678f))",
    "silu": "sum / (1.0f + expf(-sum))",
}
_HALVES = """
static float wide(unsigned short x) {
  unsigned bits = (unsigned)x << 16; float y; memcpy(&y, &bits, 4);
  return y;
}
static float wide(float x) { return x; }
static void put(unsigned short* to, float x) {
  unsigned bits; memcpy(&bits, &x, 4);
  *to = (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static void put(float* to, float x) { *to = x; }
"""
SPARE = 2
"""Parameters that Triton adds."""

TILING = Tiling(16, 16, 16, 1, 2)


def emulated(problem: Problem, tiling: Tiling) -> Compiled:
    """A compiled template whose assembly is text for the emulation; it claims some shared memory."""
    types = problem.types
    pointers = [f"{_TYPES[types.get(name, types['output'])]}* {name}" for name in problem.arguments]
    parameters = [*pointers, *(f"int {name}" for name in problem.sizes), "long long", "long long"]
    entry = ", ".join(f".param .b64 p{number}" for number in range(len(parameters)))
    rows, columns = str(problem.rows), str(problem.shapes[-1][-1])
    # A block of two products has whole rows.
    block_n = problem.shapes[-1][-1] if isinstance(problem, BackToBack) else tiling.block_n
    text = f"""// .visible .entry {problem.kernel}({entry})
#include <cstring>
{_HALVES}
extern "C" __global__ void KERNEL({", ".join(parameters)}) {{
  for (int e = threadIdx.x; e < {tiling.block_m * block_n}; e += {32 * tiling.warps}) {{
    int m = blockIdx.x * {tiling.block_m} + e / {block_n};
    int n = blockIdx.y * {block_n} + e % {block_n};
    if (m < {rows} && n < {columns}) {{
      float sum = 0;
      {_sum(problem)}
      {"sum += wide(bias[n]);" if "bias" in types else ""}
      {f"sum += wide(residual[m * {columns} + n]);" if "residual" in types else ""}
      put(output + m * {columns} + n, {_ACTIVATED[problem.activation]});
    }}
  }}
}}
"""
    return Compiled(tiling, registers=32, stack_bytes=0, shared_bytes=1024, assembly=text)


_PRODUCT = "for (int k = 0; k < depth; ++k) sum += wide(left[m * depth + k]) * wide(right[k * columns + n]);"


def _sum(problem: Problem) -> str:
    if isinstance(problem, Window):
        return _window(problem)
    return _pair(problem) if isinstance(problem, BackToBack) else _PRODUCT


def _pair(problem: BackToBack) -> str:
    """The second product, of a row of the first one, which is computed anew for each column."""
    return f"""
      for (int j = 0; j < {problem.middle}; ++j) {{
        float first_sum = wide(first_bias[j]);
        for (int k = 0; k < depth; ++k)
          first_sum += wide(left[m * depth + k]) * wide(first[k * {problem.middle} + j]);
        unsigned short kept;
        {{ float sum = first_sum; put(&kept, {_ACTIVATED[problem.activation]}); }}
        sum += wide(kept) * wide(second[j * {problem.n} + n]);
      }}
      sum += wide(second_bias[n]);"""


def _window(problem: Window) -> str:
    return f"""
      int image = m / (out_height * out_width);
      int top = m / out_width % out_height * {problem.stride} - {problem.padding};
      int from = m % out_width * {problem.stride} - {problem.padding};
      for (int ky = 0; ky < {problem.kernel_h}; ++ky)
        for (int kx = 0; kx < {problem.kernel_w}; ++kx)
          for (int c = 0; c < channels; ++c) {{
            int y = top + ky, x = from + kx;
            if (y < 0 || y >= height || x < 0 || x >= width) continue;
            sum += wide(data[((image * height + y) * width + x) * channels + c]) *
                   wide(weight[((ky * {problem.kernel_w} + kx) * channels + c) * filters + n]);
          }}"""

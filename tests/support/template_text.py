"""CUDA text that does what a template's kernel does, slowly, for the emulation.

It stands where a compiled template has its assembly. The first line is what TVM's caller reads of the latter:
the entry with its parameters. The emulation puts the kernel's name in the place of KERNEL.
"""

from __future__ import annotations

from math import ceil

from foretune.compiler.templates.gpu.attention import BackToBack
from foretune.compiler.templates.gpu.compilation import Compiled, Kernel
from foretune.compiler.templates.gpu.launches import WORKSPACE, Launch
from foretune.compiler.templates.gpu.problem import Problem, Window
from foretune.compiler.templates.gpu.tiling import Tiling

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
    """A compiled template whose kernels are text for the emulation; each claims some shared memory."""
    texts = [_kernel(problem, tiling, launch) for launch in problem.launches(tiling)]
    return Compiled(tiling, tuple(Kernel(32, 0, 1024, text) for text in texts))


def _kernel(problem: Problem, tiling: Tiling, launch: Launch) -> str:
    """CUDA text of one kernel; the same array may be passed several times."""
    names = {"rows_of_parts": ROWS, "attention": ("query", "key", "value", "mask", "output")}.get(
        launch.kernel, problem.arguments if launch.arguments == problem.arguments else FACTORS
    )
    types = launch.passed({**problem.types, WORKSPACE: "fp32"})
    pointers = [f"{_TYPES[dtype]}* {name}" for name, dtype in zip(names, types, strict=True)]
    parameters = [*pointers, *(f"int {name}" for name in launch.sizes), "long long", "long long"]
    entry = ", ".join(f".param .b64 p{number}" for number in range(len(parameters)))
    body = {"rows_of_parts": _rows, "attention": _attention}.get(launch.kernel, _product)
    return f"""// .visible .entry {launch.kernel}({entry})
#include <cstring>
{_HALVES}
extern "C" __global__ void KERNEL({", ".join(parameters)}) {{
  {body(problem, tiling, launch)}
}}
"""


ROWS = ("data", "bias", "residual", "scale", "shift", "output")
FACTORS = ("left", "right", "bias", "residual", "output")


def _product(problem: Problem, tiling: Tiling, launch: Launch) -> str:
    """Sums, or the share of them that blockIdx.z adds."""
    rows, columns = str(problem.rows), str(problem.shapes[-1][-1])
    # A block of two products has whole rows.
    block_n = problem.shapes[-1][-1] if isinstance(problem, BackToBack) else tiling.block_n
    bias, residual = (launch.constants.get(name) for name in ("BIAS", "RESIDUAL"))
    activation = problem.activation if WORKSPACE not in launch.arguments else "none"
    return f"""
  for (int e = threadIdx.x; e < {tiling.block_m * block_n}; e += {32 * tiling.warps}) {{
    int m = blockIdx.x * {tiling.block_m} + e / {block_n};
    int n = blockIdx.y * {block_n} + e % {block_n};
    if (m < {rows} && n < {columns}) {{
      float sum = 0;
      {_sum(problem, tiling)}
      {"sum += wide(bias[n]);" if bias else ""}
      {f"sum += wide(residual[m * {columns} + n]);" if residual else ""}
      put(output + (blockIdx.z * {rows} + m) * {columns} + n, {_ACTIVATED[activation]});
    }}
  }}"""


def _rows(problem: Problem, tiling: Tiling, launch: Launch) -> str:
    """One thread for a row, with the constants of the kernel."""
    known = launch.constants
    width = known["BLOCK_N"]
    finish = {
        0: "",
        1: f"""
    float mean = 0, square = 0;
    for (int n = 0; n < columns; ++n) mean += kept[n] / columns;
    for (int n = 0; n < columns; ++n) square += (kept[n] - mean) * (kept[n] - mean) / columns;
    for (int n = 0; n < columns; ++n)
      kept[n] = (kept[n] - mean) / sqrtf(square + {known["EPSILON"]}f) * wide(scale[n]) + wide(shift[n]);""",
        2: """
    float peak = kept[0], total = 0;
    for (int n = 0; n < columns; ++n) peak = kept[n] > peak ? kept[n] : peak;
    for (int n = 0; n < columns; ++n) total += kept[n] = expf(kept[n] - peak);
    for (int n = 0; n < columns; ++n) kept[n] /= total;""",
    }[int(known["NORM"])]
    return f"""
  if (threadIdx.x == 0) {{
    float kept[{width}];
    int row = blockIdx.x, first = blockIdx.y * {width};
    int end = columns < first + {width} ? columns : first + {width};
    for (int at = first; at < end; ++at) {{
      float sum = 0;
      for (int part = 0; part < {known["PARTS"]}; ++part)
        sum += wide(data[(part * rows + row) * columns + at]);
      {"sum += wide(bias[at]);" if known["BIAS"] else ""}
      {"sum += wide(residual[row * columns + at]);" if known["RESIDUAL"] else ""}
      kept[at - first] = {_ACTIVATED[problem.activation]};
    }}
    {finish}
    for (int at = first; at < end; ++at) put(output + row * columns + at, kept[at - first]);
  }}"""


def _attention(problem: Problem, tiling: Tiling, launch: Launch) -> str:
    """One thread for a row of a head."""
    known = launch.constants

    def at(name: str, row: str) -> str:
        start, batch, head, step = (known[f"{name}_{of}"] for of in ("START", "BATCH", "HEAD", "ROW"))
        return f"({start} + batch * {batch} + head * {head} + ({row}) * {step})"

    width = known["WIDTH"]
    mask = f"score += wide(mask[{at('M', 'm')} + n]);" if known["MASK"] else ""
    return f"""
  int batch = blockIdx.y / {known["HEADS"]}, head = blockIdx.y % {known["HEADS"]};
  int m = blockIdx.x * {tiling.block_m} + threadIdx.x;
  if (threadIdx.x < {tiling.block_m} && m < queries) {{
    float sums[{width}] = {{0}}, total = 0;
    for (int n = 0; n < keys; ++n) {{
      float score = 0;
      for (int d = 0; d < {width}; ++d)
        score += wide(query[{at("Q", "m")} + d]) * wide(key[{at("K", "n")} + d]);
      score *= {known["SCALE"]}f;
      {mask}
      float weight = expf(score);
      total += weight;
      for (int d = 0; d < {width}; ++d) sums[d] += weight * wide(value[{at("V", "n")} + d]);
    }}
    for (int d = 0; d < {width}; ++d) put(output + {at("O", "m")} + d, sums[d] / total);
  }}"""


def _sum(problem: Problem, tiling: Tiling) -> str:
    if isinstance(problem, Window):
        return _window(problem)
    if isinstance(problem, BackToBack):
        return _pair(problem)
    share = ceil(ceil(problem.depth / tiling.block_k) / tiling.parts) * tiling.block_k
    return f"""
      int first = blockIdx.z * {share}, end = depth < first + {share} ? depth : first + {share};
      for (int k = first; k < end; ++k)
        sum += wide(left[m * depth + k]) * wide(right[k * columns + n]);"""


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

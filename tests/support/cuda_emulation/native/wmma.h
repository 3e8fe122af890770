// Tensor-core fragments. The first lane of a warp holds the whole matrix and does the work of all.
#pragma once
#include <type_traits>
#include "emulation.h"

#define EMU_UNTRACED __attribute__((noinline, no_sanitize("thread")))

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = row_major> struct fragment {
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M;
  static constexpr int columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = rows * columns / 32;
  T values[rows * columns];
};

EMU_INLINE bool first_lane() {
  emu::Index thread = emu_thread_index(), extent = emu_block_extent();
  return (thread.x + extent.x * (thread.y + extent.y * thread.z)) % 32 == 0;
}

template <class F, class P> EMU_UNTRACED void load(F& f, const P* from, unsigned stride, bool by_row) {
  for (int r = 0; r < F::rows; ++r)
    for (int c = 0; c < F::columns; ++c)
      f.values[r * F::columns + c] = by_row ? from[r * stride + c] : from[c * stride + r];
}

template <class F, class P> void load_by_first_lane(F& f, const P* from, unsigned stride, bool by_row) {
  if (!first_lane()) return;
  int lines = by_row ? F::rows : F::columns, length = by_row ? F::columns : F::rows;
  emu_access_rows(from, length * sizeof(P), lines, stride * sizeof(P), false);
  load(f, from, stride, by_row);
}

template <class U, int M, int N, int K, class T, class L, class P>
void load_matrix_sync(fragment<U, M, N, K, T, L>& f, const P* from, unsigned stride) {
  load_by_first_lane(f, from, stride, std::is_same_v<L, row_major>);
}

template <int M, int N, int K, class T, class L, class P>
void load_matrix_sync(fragment<accumulator, M, N, K, T, L>& f, const P* from, unsigned stride, layout_t layout) {
  load_by_first_lane(f, from, stride, layout == mem_row_major);
}

template <class F, class P> EMU_UNTRACED void store(P* to, const F& f, unsigned stride, bool by_row) {
  for (int r = 0; r < F::rows; ++r)
    for (int c = 0; c < F::columns; ++c)
      (by_row ? to[r * stride + c] : to[c * stride + r]) = f.values[r * F::columns + c];
}

template <int M, int N, int K, class T, class L, class P>
void store_matrix_sync(P* to, const fragment<accumulator, M, N, K, T, L>& f, unsigned stride, layout_t layout) {
  if (!first_lane()) return;
  bool by_row = layout == mem_row_major;
  emu_access_rows(to, (by_row ? N : M) * sizeof(P), by_row ? M : N, stride * sizeof(P), true);
  store(to, f, stride, by_row);
}

template <class F, class V> EMU_UNTRACED void fill(F& f, V value) {
  for (auto& each : f.values) each = value;
}

template <class U, int M, int N, int K, class T, class L, class V>
void fill_fragment(fragment<U, M, N, K, T, L>& f, V value) {
  if (first_lane()) fill(f, value);
}

// Sums in int, or in float as a device does for both types of accumulators.
template <class D, class A, class B, class C> EMU_UNTRACED void multiply(D& d, const A& a, const B& b, const C& c) {
  using Sum = std::conditional_t<std::is_integral_v<std::remove_all_extents_t<decltype(d.values)>>, int, float>;
  constexpr int rows = D::rows, columns = D::columns, inner = A::columns;
  for (int i = 0; i < rows; ++i) {
    Sum sums[columns];
    for (int j = 0; j < columns; ++j) sums[j] = c.values[i * columns + j];
    for (int k = 0; k < inner; ++k)
      for (int j = 0; j < columns; ++j) sums[j] += (Sum)a.values[i * inner + k] * (Sum)b.values[k * columns + j];
    for (int j = 0; j < columns; ++j) d.values[i * columns + j] = sums[j];
  }
}

template <int M, int N, int K, class D, class TA, class LA, class TB, class LB, class C>
void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
              const fragment<matrix_b, M, N, K, TB, LB>& b, const fragment<accumulator, M, N, K, C>& c) {
  if (first_lane()) multiply(d, a, b, c);
}

}  // namespace nvcuda::wmma

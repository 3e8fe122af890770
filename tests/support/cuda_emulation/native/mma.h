// Warp-wide matrix instructions of PTX: ldmatrix, and mma.sync of 16-bit floats (m16n8k8, m16n8k16). Each lane keeps
// its own part of a fragment, as on a device.
#pragma once
#include <cstring>
#include <type_traits>
#include "emulation.h"
#include "vector_types.h"
#include "wmma.h"

namespace emu {

using Slots = unsigned char[32][32];

// Lane l of the warp gives the address of row l mod 8 of matrix l / 8. It receives elements 2 (l mod 4) and the next
// one of row l / 4 of each matrix, or with Transposed of each matrix's transpose.
template <bool Transposed> EMU_UNTRACED void distribute(const Slots& rows, unsigned lane, unsigned* to) {
  for (int matrix = 0; matrix < 4; ++matrix)
    for (int element = 0; element < 2; ++element) {
      unsigned row = lane / 4, column = lane % 4 * 2 + element;
      if (Transposed) std::swap(row, column);
      std::memcpy((uint16_t*)(to + matrix) + element, rows[8 * matrix + row] + 2 * column, 2);
    }
}

template <bool Transposed> EMU_INLINE void load_matrices(int site, const void* row, unsigned (&to)[4]) {
  unsigned char mine[16];
  copy_whole<16>(mine, row);  // the access that the tracer sees
  Slots rows;
  unsigned lane = emu_share(mine, sizeof(mine), rows, site);
  distribute<Transposed>(rows, lane, to);
}

template <class T> float element(const unsigned char* registers, int index) {
  T value;
  std::memcpy(&value, registers + 2 * index, 2);
  return value;
}

// Row l / 4 and the one 8 below of columns 2 (l mod 4) and the next: sums of lane l. A lane's registers of the left
// matrix come first: of every 8 columns two, for its upper and its lower row.
template <class T, int K> EMU_UNTRACED void multiply_shared(const Slots& all, unsigned lane, float (&sums)[4]) {
  for (int half = 0; half < 2; ++half)
    for (int next = 0; next < 2; ++next)
      for (int k = 0; k < K; ++k) {
        int step = k / 8, pair = k % 8 / 2, parity = k % 2;
        const unsigned char* left = all[lane / 4 * 4 + pair];
        const unsigned char* right = all[(lane % 4 * 2 + next) * 4 + pair] + K;
        sums[2 * half + next] +=
            element<T>(left, (2 * step + half) * 2 + parity) * element<T>(right, 2 * step + parity);
      }
}

// Sums are floats, and rounded once where the accumulator has 16 bits.
template <class T, int K, class Sum, int Registers>
EMU_UNTRACED void multiply_tiles(int site, const unsigned (&a)[K / 4], const unsigned (&b)[K / 8],
                                 Sum (&c)[Registers]) {
  unsigned char mine[K + K / 2];
  std::memcpy(mine, a, K);
  std::memcpy(mine + K, b, K / 2);
  Slots all;
  unsigned lane = emu_share(mine, sizeof(mine), all, site);
  float sums[4];
  for (int i = 0; i < 4; ++i)
    if constexpr (std::is_same_v<Sum, float>) sums[i] = c[i];
    else sums[i] = element<half>((const unsigned char*)c, i);
  multiply_shared<T, K>(all, lane, sums);
  for (int i = 0; i < 4; ++i)
    if constexpr (std::is_same_v<Sum, float>) c[i] = sums[i];
    else ((half*)c)[i] = (half)sums[i];
}

}  // namespace emu

// CUDA's vector types. A copy is one access of the whole vector, as on a device, also for the optimiser and the tracer.
#pragma once
#include <cstdint>

#define EMU_INLINE inline __attribute__((always_inline))

namespace emu {

typedef uint16_t Whole2 __attribute__((may_alias, aligned(1)));
typedef uint32_t Whole4 __attribute__((may_alias, aligned(1)));
typedef uint64_t Whole8 __attribute__((may_alias, aligned(1)));
typedef long long Whole16 __attribute__((vector_size(16), may_alias, aligned(1)));

template <int Bytes> EMU_INLINE void copy_whole(void* to, const void* from) {
  if constexpr (Bytes == 2) *(Whole2*)to = *(const Whole2*)from;
  else if constexpr (Bytes == 4) *(Whole4*)to = *(const Whole4*)from;
  else if constexpr (Bytes == 8) *(Whole8*)to = *(const Whole8*)from;
  else if constexpr (Bytes == 16) *(Whole16*)to = *(const Whole16*)from;
  else __builtin_memcpy(to, from, Bytes);
}

}  // namespace emu

#define EMU_COPIED_WHOLE(Name, Bytes)                                             \
  Name() = default;                                                               \
  EMU_INLINE Name(const Name& other) { emu::copy_whole<Bytes>(this, &other); }    \
  EMU_INLINE Name& operator=(const Name& other) {                                 \
    emu::copy_whole<Bytes>(this, &other);                                         \
    return *this;                                                                 \
  }

#define EMU_VECTORS(T, N)                                                         \
  struct N##1 { T x; };                                                           \
  struct alignas(2 * sizeof(T)) N##2 {                                            \
    T x, y;                                                                       \
    EMU_COPIED_WHOLE(N##2, 2 * sizeof(T))                                         \
    EMU_INLINE N##2(T x, T y) : x(x), y(y) {}                                     \
  };                                                                              \
  struct N##3 { T x, y, z; };                                                     \
  struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) N##4 {                       \
    T x, y, z, w;                                                                 \
    EMU_COPIED_WHOLE(N##4, 4 * sizeof(T))                                         \
    EMU_INLINE N##4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}               \
  };                                                                              \
  EMU_INLINE N##1 make_##N##1(T x) { return {x}; }                                \
  EMU_INLINE N##2 make_##N##2(T x, T y) { return N##2(x, y); }                    \
  EMU_INLINE N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                \
  EMU_INLINE N##4 make_##N##4(T x, T y, T z, T w) { return N##4(x, y, z, w); }

EMU_VECTORS(signed char, char)
EMU_VECTORS(unsigned char, uchar)
EMU_VECTORS(short, short)
EMU_VECTORS(unsigned short, ushort)
EMU_VECTORS(int, int)
EMU_VECTORS(unsigned, uint)
EMU_VECTORS(long long, longlong)
EMU_VECTORS(unsigned long long, ulonglong)
EMU_VECTORS(float, float)
EMU_VECTORS(double, double)

using half = _Float16;
using __half = _Float16;
struct alignas(4) half2 {
  half x, y;
  EMU_COPIED_WHOLE(half2, 4)
  EMU_INLINE half2(half x, half y) : x(x), y(y) {}
};
using __half2 = half2;
EMU_INLINE half2 make_half2(half x, half y) { return half2(x, y); }
EMU_INLINE half2 __halves2half2(half x, half y) { return half2(x, y); }

// The upper half of a float, rounded to even; arithmetic is that of floats.
struct nv_bfloat16 {
  uint16_t bits;
  nv_bfloat16() = default;
  EMU_INLINE nv_bfloat16(float value) {
    uint32_t wide;
    __builtin_memcpy(&wide, &value, 4);
    bits = value != value ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
  }
  EMU_INLINE operator float() const {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    __builtin_memcpy(&value, &wide, 4);
    return value;
  }
};
using __nv_bfloat16 = nv_bfloat16;
struct alignas(4) nv_bfloat162 {
  nv_bfloat16 x, y;
  EMU_COPIED_WHOLE(nv_bfloat162, 4)
  EMU_INLINE nv_bfloat162(nv_bfloat16 x, nv_bfloat16 y) : x(x), y(y) {}
};

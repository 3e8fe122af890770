// CUDA's scalar functions that TVM's text uses.
#pragma once
#include <cmath>
#include <cstring>
#include <type_traits>
#include "vector_types.h"

// Mixed types are allowed, as in CUDA.
template <class A, class B> EMU_INLINE std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }
template <class A, class B> EMU_INLINE std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }

inline float __half2float(half a) { return a; }
inline half __float2half(float a) { return a; }
inline half __float2half_rn(float a) { return a; }
inline half __int2half_rn(int a) { return a; }
inline half __ushort_as_half(unsigned short a) { half r; std::memcpy(&r, &a, 2); return r; }
inline float __bfloat162float(nv_bfloat16 a) { return a; }
inline nv_bfloat16 __float2bfloat16(float a) { return a; }
inline nv_bfloat16 __float2bfloat16_rn(float a) { return a; }
inline bool __hgt(nv_bfloat16 a, nv_bfloat16 b) { return (float)a > (float)b; }
inline bool __hlt(nv_bfloat16 a, nv_bfloat16 b) { return (float)a < (float)b; }
inline bool __hgt(half a, half b) { return a > b; }
inline bool __hlt(half a, half b) { return a < b; }
inline bool __heq(half a, half b) { return a == b; }
inline half __hmax(half a, half b) { return a > b ? a : b; }
inline half __hmin(half a, half b) { return a < b ? a : b; }
inline half __hfma(half a, half b, half c) { return std::fma((float)a, (float)b, (float)c); }
inline half hexp(half a) { return std::exp((float)a); }
inline half hlog(half a) { return std::log((float)a); }
inline half hsqrt(half a) { return std::sqrt((float)a); }
inline half hrsqrt(half a) { return 1 / std::sqrt((float)a); }
inline half htanh(half a) { return std::tanh((float)a); }
inline half herf(half a) { return std::erf((float)a); }
inline half hpow(half a, half b) { return std::pow((float)a, (float)b); }

inline float __expf(float a) { return std::exp(a); }
inline float __logf(float a) { return std::log(a); }
inline float __tanhf(float a) { return std::tanh(a); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return 1 / std::sqrt(a); }
inline int __mul24(int a, int b) { return a * b; }
template <class T> EMU_INLINE T __ldg(const T* p) { return *p; }

inline int __dp4a(int a, int b, int sum) {
  for (int bit = 0; bit < 32; bit += 8) sum += (signed char)(a >> bit) * (signed char)(b >> bit);
  return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int bit = 0; bit < 32; bit += 8) sum += (a >> bit & 255) * (b >> bit & 255);
  return sum;
}

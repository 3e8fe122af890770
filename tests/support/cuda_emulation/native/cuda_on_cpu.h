// CUDA C++ as TVM writes it, for a C++ compiler of the CPU. Compiled once as a precompiled header.
#pragma once
#include <cstdio>
#include <tuple>
#include <utility>
#include "emulation.h"
#include "math_functions.h"
#include "mma.h"
#include "vector_types.h"
#include "wmma.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __constant__ static
#define __shared__ static __attribute__((section("emu_shared")))
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0

#define threadIdx (emu_thread_index())
#define blockIdx (emu_block_index())
#define blockDim (emu_block_extent())
#define gridDim (emu_grid_extent())

#define __syncthreads() emu_barrier(__COUNTER__)
#define __syncwarp(...) emu_warp_barrier(__COUNTER__)
#define __activemask() emu_warp_sync(__COUNTER__)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

namespace emu {

EMU_INLINE int lane() {
  Index thread = emu_thread_index(), extent = emu_block_extent();
  return (thread.x + extent.x * (thread.y + extent.y * thread.z)) % 32;
}

template <class T> T exchange(T value, int from, bool keep, int site) {
  emu_exchange(&value, sizeof(T), from, keep, site);
  return value;
}

}  // namespace emu

#define __shfl_sync(mask, value, source, width) \
  emu::exchange(value, (emu::lane() & ~((width) - 1)) | ((source) & ((width) - 1)), false, __COUNTER__)
#define __shfl_down_sync(mask, value, by, width) \
  emu::exchange(value, emu::lane() + (by), (emu::lane() & ((width) - 1)) + (by) >= (width), __COUNTER__)
#define __shfl_up_sync(mask, value, by, width) \
  emu::exchange(value, emu::lane() - (by), (emu::lane() & ((width) - 1)) < (by), __COUNTER__)
#define __shfl_xor_sync(mask, value, by, width) emu::exchange(value, emu::lane() ^ (by), false, __COUNTER__)

// The linker makes these for the section, where there is one.
extern "C" __attribute__((weak, visibility("hidden"))) char __start_emu_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) char __stop_emu_shared[];

namespace emu {

template <class T> EMU_UNTRACED T as(const Argument& argument) {
  if constexpr (std::is_pointer_v<T>) return (T)argument.pointer;
  else if constexpr (std::is_floating_point_v<T>) return (T)argument.real;
  else return (T)argument.integer;
}

// Positions of launch parameters: grid x y z, block x y z, bytes of dynamic shared memory.
template <class... T, size_t... I>
int invoke(void (*kernel)(T...), const char* name, const Argument* arguments, Argument* result, const int* positions,
           int position_count, std::index_sequence<I...>) {
  auto run = [&]() __attribute__((no_sanitize("thread"))) { kernel(as<T>(arguments[I])...); };
  using Run = decltype(run);
  void* buffers[sizeof...(T) + 1];
  int count = 0;
  ((std::is_pointer_v<T> ? void(buffers[count++] = arguments[I].pointer) : void()), ...);
  size_t values[7] = {1, 1, 1, 1, 1, 1, 0};
  for (int i = 0; i < position_count; ++i) values[positions[i]] = arguments[sizeof...(T) + i].integer;
  auto call = [](const void* context) __attribute__((no_sanitize("thread"))) { (*(const Run*)context)(); };
  Launch launch{name, call, &run, buffers, count,
                {(unsigned)values[0], (unsigned)values[1], (unsigned)values[2]},
                {(unsigned)values[3], (unsigned)values[4], (unsigned)values[5]}, values[6],
                __start_emu_shared, __stop_emu_shared};
  *result = {};
  const char* failure = emu_launch(&launch);
  if (failure) TVMFFIErrorSetRaisedFromCStr("RuntimeError", failure);
  return failure ? -1 : 0;
}

}  // namespace emu

#define EMU_KERNEL(name, ...)                                                                                  \
  EMU_EXPORT int __tvm_ffi_##name(void*, const emu::Argument* arguments, int32_t, emu::Argument* result) {     \
    static const int positions[] = {__VA_ARGS__};                                                              \
    return emu::invoke_kernel(&name, #name, arguments, result, positions, sizeof(positions) / sizeof(int));    \
  }

namespace emu {
template <class... T>
int invoke_kernel(void (*kernel)(T...), const char* name, const Argument* arguments, Argument* result,
                  const int* positions, int count) {
  return invoke(kernel, name, arguments, result, positions, count, std::index_sequence_for<T...>());
}
}  // namespace emu

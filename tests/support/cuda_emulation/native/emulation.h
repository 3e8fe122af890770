// Interface between emulated kernels and the runtime that executes them.
//
// A CUDA thread is a fiber. It runs alone until a barrier or a warp operation, so no lock step is assumed, and the
// order of the threads between two such points is a setting. Blocks run one after the other. All state is the
// runtime's (runtime.cc), which is compiled without instrumentation: the only accesses that the tracer sees are those
// of the kernel's own text.
#pragma once
#include <cstddef>
#include <cstdint>

#define EMU_EXPORT extern "C" __attribute__((visibility("default")))

namespace emu {

struct Index { unsigned x, y, z; };

// TVM's packed argument (TVMFFIAny).
struct Argument {
  int32_t type;
  int32_t padding;
  union { int64_t integer; double real; void* pointer; };
};

struct Launch {
  const char* kernel;
  void (*body)(const void* context);
  const void* context;
  void* const* buffers;  // global buffers among the arguments
  int buffer_count;
  Index grid, block;
  size_t dynamic_bytes;
  char *static_begin, *static_end;  // the library's __shared__ variables
};

}  // namespace emu

// Index of the running thread. Constant within one execution of a kernel's body, which lets the compiler ask once.
EMU_EXPORT emu::Index emu_thread_index() __attribute__((const));
EMU_EXPORT emu::Index emu_block_index() __attribute__((const));
EMU_EXPORT emu::Index emu_block_extent() __attribute__((const));
EMU_EXPORT emu::Index emu_grid_extent() __attribute__((const));
EMU_EXPORT unsigned char* emu_dynamic_shared() __attribute__((const));

// Waits for all threads of the block. `site` differs for each use in the text.
EMU_EXPORT void emu_barrier(int site);
// Waits for the lanes of the warp that reach the same site, whose mask it returns.
EMU_EXPORT unsigned emu_warp_sync(int site);
// The same, ordering accesses to memory (__syncwarp).
EMU_EXPORT void emu_warp_barrier(int site);
// Exchange of `bytes` at `value` with lane `from`; a lane that takes no part keeps its own.
EMU_EXPORT void emu_exchange(void* value, int bytes, int from, bool keep, int site);

// Gives `bytes` at `value` (up to 32) to all lanes of the warp, which get those of every lane, and returns the number of
// the lane. All 32 lanes must take part.
EMU_EXPORT unsigned emu_share(const void* value, int bytes, unsigned char (*all)[32], int site);

// Asynchronous copies arrive as late as they may: when their thread waits for their group.
EMU_EXPORT void emu_copy_async(void* to, const void* from, int bytes);
EMU_EXPORT void emu_commit_group();
EMU_EXPORT void emu_wait_group(int pending);

// Access of a whole warp to `rows` rows of a matrix, made by one lane on behalf of all (WMMA).
EMU_EXPORT void emu_access_rows(const void* from, int row_bytes, int rows, size_t stride, bool write);

// Runs a kernel; null, or the message of what a device would have stopped at.
EMU_EXPORT const char* emu_launch(const emu::Launch* launch);

// TVM's own: sets the error that a call with result -1 raises.
extern "C" void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);

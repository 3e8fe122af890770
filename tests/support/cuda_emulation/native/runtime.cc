// Scheduler: runs the threads of one block after the other as fibers.
#include "runtime.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

#include "trace.h"

namespace emu {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kWarp = 32, kMostThreads = 1024;

struct Copy { void* to; const void* from; int bytes; };
enum class State { ready, at_barrier, at_warp, done };

struct Fiber {
  ucontext_t start;
  jmp_buf resume_at;
  bool started;
  State state;
  int site;
  Index index;
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
};

struct Warp {
  unsigned char slots[kWarp][32];
  unsigned mask;
};

std::vector<Fiber> fibers(kMostThreads);
std::vector<Warp> warps(kMostThreads / kWarp);
char* stacks = nullptr;
int running = 0;
jmp_buf scheduler;
Launch launch;
Index block;
unsigned char* dynamic_shared;
std::string failure;
unsigned order = 0;
uint64_t barriers;

void give_back(State state, int site) {
  Fiber& fiber = fibers[running];
  fiber.state = state;
  fiber.site = site;
  if (!_setjmp(fiber.resume_at)) _longjmp(scheduler, 1);
}

void enter() {
  launch.body(launch.context);
  fibers[running].state = State::done;
  _longjmp(scheduler, 1);
}

void resume(int thread) {
  running = thread;
  Fiber& fiber = fibers[thread];
  if (_setjmp(scheduler)) return;
  if (fiber.started) _longjmp(fiber.resume_at, 1);
  fiber.started = true;
  setcontext(&fiber.start);
}

// Lets the lanes go on that wait at one warp operation. Each warp has no lane left that runs on its own.
bool release_warps(int threads) {
  bool released = false;
  for (int first = 0; first < threads; first += kWarp) {
    int last = std::min(first + kWarp, threads), site = -1;
    unsigned mask = 0;
    for (int i = first; i < last; ++i)
      if (fibers[i].state == State::at_warp && (site < 0 || fibers[i].site == site)) {
        site = fibers[i].site;
        fibers[i].state = State::ready;
        mask |= 1u << (i - first);
      }
    if (mask) warps[first / kWarp].mask = mask;
    released |= mask != 0;
  }
  return released;
}

// Lets all threads go on that wait at the barrier; false when the block is done.
bool release_barrier(int threads) {
  int done = 0, site = -1;
  for (int i = 0; i < threads; ++i) {
    if (fibers[i].state == State::done) ++done;
    else if (site >= 0 && fibers[i].site != site) failure = "threads of a block wait at different barriers";
    else site = fibers[i].site;
  }
  if (done && done < threads) failure = "threads left the kernel before a barrier that others wait at";
  if (done == threads || !failure.empty()) return false;
  for (int i = 0; i < threads; ++i) fibers[i].state = State::ready;
  ++barriers;
  trace::barrier();
  return true;
}

void run_block(int threads) {
  std::vector<int> turn(threads);
  for (int i = 0; i < threads; ++i) {
    Fiber& fiber = fibers[i];
    fiber.started = false;
    fiber.state = State::ready;
    fiber.open.clear();
    fiber.groups.clear();
    turn[i] = order == 1 ? threads - 1 - i : i;
  }
  unsigned seed = order;
  do {
    if (order > 1)
      for (int i = threads - 1; i > 0; --i) {
        seed = seed * 1664525u + 1013904223u;
        std::swap(turn[i], turn[(seed >> 8) % (i + 1)]);
      }
    for (int thread : turn) {
      if (fibers[thread].state == State::ready) resume(thread);
      if (!failure.empty()) return;
    }
  } while (release_warps(threads) || release_barrier(threads));
}

void prepare(int threads) {
  if (!stacks)
    stacks = (char*)mmap(nullptr, kStackBytes * kMostThreads, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (unsigned i = 0; i < (unsigned)threads; ++i) {
    Fiber& fiber = fibers[i];
    fiber.index = {i % launch.block.x, i / launch.block.x % launch.block.y, i / launch.block.x / launch.block.y};
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = stacks + kStackBytes * i;
    fiber.start.uc_stack.ss_size = kStackBytes;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, enter, 0);
  }
}

// NaN in floating-point numbers, so that reading what nobody wrote shows in the outputs.
void poison_shared() {
  std::memset(dynamic_shared, 0xff, launch.dynamic_bytes);
  if (launch.static_begin) std::memset(launch.static_begin, 0xff, launch.static_end - launch.static_begin);
}

}  // namespace

int running_thread() { return running; }

bool on_running_stack(const void* address) {
  const char* begin = stacks + kStackBytes * running;
  return address >= begin && address < begin + kStackBytes;
}

void stop_launch(const char* reason) {
  failure = reason;
  _longjmp(scheduler, 1);
}

}  // namespace emu

using namespace emu;

// 0: ascending; 1: descending; any other value seeds a new order after each barrier.
EMU_EXPORT void emu_set_order(unsigned value) { order = value; }

EMU_EXPORT Index emu_thread_index() { return fibers[running].index; }
EMU_EXPORT Index emu_block_index() { return block; }
EMU_EXPORT Index emu_block_extent() { return launch.block; }
EMU_EXPORT Index emu_grid_extent() { return launch.grid; }
EMU_EXPORT unsigned char* emu_dynamic_shared() { return dynamic_shared; }

EMU_EXPORT void emu_barrier(int site) { give_back(State::at_barrier, site); }

EMU_EXPORT unsigned emu_warp_sync(int site) {
  give_back(State::at_warp, 2 * site);
  return warps[running / kWarp].mask;
}

EMU_EXPORT void emu_warp_barrier(int site) {
  emu_warp_sync(site);
  trace::warp_barrier(running / kWarp);
}

EMU_EXPORT void emu_exchange(void* value, int bytes, int from, bool keep, int site) {
  int lane = running % kWarp;
  Warp& warp = warps[running / kWarp];
  std::memcpy(warp.slots[lane], value, bytes);
  give_back(State::at_warp, 2 * site);  // all have written
  if (!keep && from >= 0 && from < kWarp && warp.mask >> from & 1) std::memcpy(value, warp.slots[from], bytes);
  give_back(State::at_warp, 2 * site + 1);  // all have read
}

EMU_EXPORT unsigned emu_share(const void* value, int bytes, unsigned char (*all)[32], int site) {
  int lane = running % kWarp;
  Warp& warp = warps[running / kWarp];
  std::memcpy(warp.slots[lane], value, bytes);
  give_back(State::at_warp, 2 * site);  // all have written
  if (~warp.mask) stop_launch("a matrix instruction without all lanes of its warp");
  std::memcpy(all, warp.slots, sizeof(warp.slots));
  give_back(State::at_warp, 2 * site + 1);  // all have read
  return lane;
}

EMU_EXPORT __attribute__((noinline)) void emu_copy_async(void* to, const void* from, int bytes) {
  if (((uintptr_t)to | (uintptr_t)from) % bytes) stop_launch("misaligned address of an asynchronous copy");
  trace::copy_starts(to, from, bytes, __builtin_return_address(0));
  fibers[running].open.push_back({to, from, bytes});
}

EMU_EXPORT void emu_commit_group() {
  Fiber& fiber = fibers[running];
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}

EMU_EXPORT void emu_wait_group(int pending) {
  auto& groups = fibers[running].groups;
  while ((int)groups.size() > pending) {
    for (const Copy& copy : groups.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes);
      trace::copy_arrives(copy.to, copy.bytes);
    }
    groups.erase(groups.begin());
  }
}

EMU_EXPORT const char* emu_launch(const Launch* wanted) {
  static std::string message;
  launch = *wanted;
  failure.clear();
  barriers = 0;
  size_t threads = (size_t)launch.block.x * launch.block.y * launch.block.z;
  if (threads == 0 || threads > kMostThreads) {
    message = std::string(launch.kernel) + ": " + std::to_string(threads) + " threads in a block";
    return message.c_str();
  }
  std::vector<unsigned char> memory(launch.dynamic_bytes + 128);
  dynamic_shared = (unsigned char*)(((uintptr_t)memory.data() + 127) & ~(uintptr_t)127);
  prepare(threads);
  trace::begin(launch, (char*)dynamic_shared);
  int number = 0;
  for (unsigned z = 0; z < launch.grid.z; ++z)
    for (unsigned y = 0; y < launch.grid.y; ++y)
      for (unsigned x = 0; x < launch.grid.x && failure.empty(); ++x) {
        block = {x, y, z};
        poison_shared();
        trace::next_block(number++);
        run_block(threads);
      }
  trace::end(barriers, failure.empty() ? nullptr : failure.c_str());
  if (failure.empty()) return nullptr;
  message = std::string(launch.kernel) + ": " + failure;
  return message.c_str();
}

// Kernels are compiled with -fsanitize=thread; the hooks at the end stand in place of the sanitizer's library.
#include "trace.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <malloc.h>

#include "runtime.h"

namespace emu::trace {
namespace {

constexpr int kWarp = 32, kSector = 32, kLine = 128, kBanks = 32;

// The last accesses to one byte.
struct Cell {
  uint32_t write_epoch, read_epoch;            // number of the block's barriers so far, from 1
  uint32_t write_warp_epoch, read_warp_epoch;  // the same of the thread's warp
  int32_t write_block, read_block;             // blocks, from 1; 0 is nobody
  int16_t writer, reader;
  bool many_readers, many_reading_blocks, in_flight;
};

struct Buffer {
  std::string name;
  char *begin, *end;
  bool global;
  std::vector<Cell> cells;
};

struct Event {
  const void* site;
  uintptr_t address;
  uint32_t bytes;
  bool write, global;
  bool once;  // not a load that the thread repeats between two barriers
};

struct Traffic {
  uint64_t requests = 0, bytes = 0, sectors = 0, lines = 0, wavefronts = 0;
  void operator+=(const Traffic& other) {
    requests += other.requests, bytes += other.bytes;
    sectors += other.sectors, lines += other.lines, wavefronts += other.wavefronts;
  }
};

bool on = false, active = false;
std::unordered_map<const void*, size_t> exact_bytes;  // of buffers whose size the caller told
std::vector<Buffer> buffers;
uint32_t epoch;
std::vector<uint32_t> warp_epochs;
int block;
Launch launch;
std::vector<std::vector<Event>> events;  // by thread of the first block
Traffic traffic[2][2];                   // by global, write
Traffic shared_loads_once;
std::vector<std::unordered_set<uintptr_t>> loaded;  // from shared memory since the last barrier, by thread
std::set<std::string> races;
std::string reports;

void add_buffer(std::string name, char* begin, size_t bytes, bool global) {
  if (begin && bytes) buffers.push_back({std::move(name), begin, begin + bytes, global, std::vector<Cell>(bytes)});
}

Buffer* buffer_of(const char* address) {
  for (Buffer& buffer : buffers)
    if (address >= buffer.begin && address < buffer.end) return &buffer;
  return nullptr;
}

std::string described(const void* address, size_t bytes, bool write) {
  std::string text = std::string(write ? "write" : "read") + " of " + std::to_string(bytes) + " bytes";
  const Buffer* nearest = nullptr;
  int64_t distance = 0;
  for (const Buffer& buffer : buffers) {
    int64_t from_begin = (const char*)address - buffer.begin, size = buffer.end - buffer.begin;
    int64_t away = from_begin < 0 ? -from_begin : std::max<int64_t>(from_begin - size, 0);
    if (!nearest || away < distance) nearest = &buffer, distance = away;
  }
  if (!nearest) return text;
  return text + " at offset " + std::to_string((const char*)address - nearest->begin) + " of " + nearest->name +
         ", which has " + std::to_string(nearest->end - nearest->begin) + " bytes";
}

void race(const Buffer& buffer, const char* what) { races.insert(std::string(what) + " on " + buffer.name); }

bool unordered(uint32_t at, uint32_t warp_at, int thread) {
  int running = running_thread();
  if (at != epoch || thread == running) return false;
  return thread / kWarp != running / kWarp || warp_at == warp_epochs[running / kWarp];
}

void touch(Buffer& buffer, Cell& cell, bool write) {
  int thread = running_thread(), mine = block + 1;
  if (cell.in_flight) race(buffer, "access before an asynchronous copy has arrived");
  if (cell.write_block == mine && unordered(cell.write_epoch, cell.write_warp_epoch, cell.writer))
    race(buffer, "race between threads");
  if (write && cell.read_block == mine && cell.read_epoch == epoch &&
      (cell.many_readers || unordered(cell.read_epoch, cell.read_warp_epoch, cell.reader)))
    race(buffer, "race between threads");
  if (buffer.global && ((cell.write_block && cell.write_block != mine) ||
                        (write && cell.read_block && (cell.read_block != mine || cell.many_reading_blocks))))
    race(buffer, "race between blocks");
  uint32_t warp_epoch = warp_epochs[thread / kWarp];
  if (write) {
    cell.write_epoch = epoch, cell.write_warp_epoch = warp_epoch, cell.write_block = mine, cell.writer = thread;
    return;
  }
  cell.many_reading_blocks |= cell.read_block && cell.read_block != mine;
  bool again = cell.read_block == mine && cell.read_epoch == epoch;
  cell.many_readers = again && (cell.many_readers || cell.reader != thread);
  cell.read_epoch = epoch, cell.read_warp_epoch = warp_epoch, cell.read_block = mine, cell.reader = thread;
}

// Checks an access; null where it is to a thread's own memory.
Buffer* checked(const void* address, size_t bytes, bool write) {
  Buffer* buffer = buffer_of((const char*)address);
  if (!buffer && on_running_stack(address)) return nullptr;
  static std::string message;
  if (!buffer || (const char*)address + bytes > buffer->end) {
    message = "out of bounds: " + described(address, bytes, write);
    stop_launch(message.c_str());
  }
  if (bytes <= 16 && (bytes & (bytes - 1)) == 0 && (uintptr_t)address % bytes) {
    message = "misaligned address: " + described(address, bytes, write);
    stop_launch(message.c_str());
  }
  for (char* byte = (char*)address; byte < (char*)address + bytes; ++byte)
    touch(*buffer, buffer->cells[byte - buffer->begin], write);
  return buffer;
}

// An address as a device has it: each buffer begins on a line, which the allocator of a CPU does not see to.
uintptr_t device_address(const Buffer& buffer, const void* address) {
  return ((uintptr_t)(&buffer - buffers.data()) << 40) + ((const char*)address - buffer.begin);
}

void access(const void* address, size_t bytes, bool write, const void* site) {
  if (!active) return;
  Buffer* buffer = checked(address, bytes, write);
  if (!buffer || block != 0) return;
  int thread = running_thread();
  bool once = write || buffer->global || loaded[thread].insert((uintptr_t)address).second;
  events[thread].push_back({site, device_address(*buffer, address), (uint32_t)bytes, write, buffer->global, once});
}

// The most different words that one bank is asked for.
uint64_t fewest_wavefronts(const std::vector<Event>& found) {
  std::set<uintptr_t> banks[kBanks];
  size_t most = 0;
  for (const Event& event : found)
    for (uintptr_t word = event.address / 4; word <= (event.address + event.bytes - 1) / 4; ++word) {
      banks[word % kBanks].insert(word);
      most = std::max(most, banks[word % kBanks].size());
    }
  return most;
}

using Lanes = std::vector<std::pair<int, Event>>;

// Shared memory serves 32 words a wavefront: all lanes at once with up to 4 bytes each, half of them with 8, a quarter
// with 16. Lanes that ask for the same word are served together.
uint64_t wavefronts_of(const Lanes& lanes) {
  uint32_t bytes = 4;
  for (auto& [lane, event] : lanes) bytes = std::max(bytes, event.bytes);
  int together = std::max<int>(1, kBanks * 4 / bytes);
  uint64_t total = 0;
  for (int first = 0; first < kWarp; first += together) {
    std::vector<Event> served;
    for (auto& [lane, event] : lanes)
      if (lane >= first && lane < first + together) served.push_back(event);
    total += fewest_wavefronts(served);
  }
  return total;
}

template <class Events> uint64_t pieces_of(const Events& found, int piece) {
  std::set<uintptr_t> pieces;
  for (const Event& event : found)
    for (uintptr_t at = event.address / piece; at <= (event.address + event.bytes - 1) / piece; ++at) pieces.insert(at);
  return pieces.size();
}

void count(const Lanes& lanes) {
  const Event& first = lanes.front().second;
  Traffic& to = traffic[first.global][first.write];
  std::vector<Event> found;
  for (auto& [lane, event] : lanes) found.push_back(event), to.bytes += event.bytes;
  ++to.requests;
  if (first.global) to.sectors += pieces_of(found, kSector), to.lines += pieces_of(found, kLine);
  else to.wavefronts += wavefronts_of(lanes);
  if (first.global || first.write) return;
  Lanes once;
  for (auto& each : lanes)
    if (each.second.once) once.push_back(each), shared_loads_once.bytes += each.second.bytes;
  shared_loads_once.requests += !once.empty();
  if (!once.empty()) shared_loads_once.wavefronts += wavefronts_of(once);
}

// The n-th use of a place in the text by each lane of a warp is one request.
void count_warp(int first) {
  std::map<std::pair<const void*, size_t>, Lanes> requests;
  for (int lane = 0; lane < kWarp && first + lane < (int)events.size(); ++lane) {
    std::unordered_map<const void*, size_t> uses;
    for (const Event& event : events[first + lane]) requests[{event.site, uses[event.site]++}].push_back({lane, event});
  }
  for (auto& [use, lanes] : requests) count(lanes);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "\"";
}

std::string traffic_json(const Traffic& t, bool global) {
  std::string text = "{\"requests\": " + std::to_string(t.requests) + ", \"bytes\": " + std::to_string(t.bytes);
  if (!global) return text + ", \"wavefronts\": " + std::to_string(t.wavefronts) + "}";
  return text + ", \"sectors\": " + std::to_string(t.sectors) + ", \"lines\": " + std::to_string(t.lines) + "}";
}

}  // namespace

void begin(const Launch& wanted, char* dynamic) {
  active = on;
  if (!active) return;
  launch = wanted;
  int threads = launch.block.x * launch.block.y * launch.block.z;
  buffers.clear(), races.clear();
  events.assign(threads, {});
  loaded.assign(threads, {});
  shared_loads_once = {};
  warp_epochs.assign(threads / kWarp + 1, 0);
  epoch = 1;
  for (auto& direction : traffic) direction[0] = direction[1] = {};
  add_buffer("static shared memory", launch.static_begin, launch.static_end - launch.static_begin, false);
  add_buffer("dynamic shared memory", dynamic, launch.dynamic_bytes, false);
  for (int i = 0; i < launch.buffer_count; ++i) {
    char* at = (char*)launch.buffers[i];
    auto known = exact_bytes.find(at);
    add_buffer("buffer " + std::to_string(i), at, known == exact_bytes.end() ? malloc_usable_size(at) : known->second,
               true);
  }
}

void next_block(int number) {
  if (!active) return;
  if (number == 1) {
    for (size_t first = 0; first < events.size(); first += kWarp) count_warp(first);
    for (auto& thread : events) thread.clear();
  }
  block = number;
  ++epoch;
}

void barrier() {
  ++epoch;
  for (auto& thread : loaded) thread.clear();
}

void warp_barrier(int warp) {
  if (active) ++warp_epochs[warp];
}

void end(uint64_t barriers, const char* failure) {
  if (!active) return;
  if (block == 0)
    for (size_t first = 0; first < events.size(); first += kWarp) count_warp(first);
  active = false;
  std::string text = "{\"kernel\": " + quoted(launch.kernel);
  text += ", \"blocks\": " + std::to_string((uint64_t)launch.grid.x * launch.grid.y * launch.grid.z);
  text += ", \"threads\": " + std::to_string(launch.block.x * launch.block.y * launch.block.z);
  text += ", \"barriers\": " + std::to_string(barriers) + ", \"races\": [";
  for (const std::string& each : races) text += (text.back() == '[' ? "" : ", ") + quoted(each);
  text += "], \"failure\": " + (failure ? quoted(failure) : std::string("null"));
  const char* names[2][2] = {{"shared_loads", "shared_stores"}, {"global_loads", "global_stores"}};
  for (int global = 0; global < 2; ++global)
    for (int write = 0; write < 2; ++write)
      text += std::string(", \"") + names[global][write] + "\": " + traffic_json(traffic[global][write], global);
  text += ", \"shared_loads_once\": " + traffic_json(shared_loads_once, false);
  reports += text + "}\n";
}

void copy_starts(void* to, const void* from, int bytes, const void* site) {
  if (!active) return;
  access(from, bytes, false, site);
  access(to, bytes, true, (const char*)site + 1);
  if (Buffer* buffer = buffer_of((char*)to))
    for (int i = 0; i < bytes; ++i) buffer->cells[(char*)to + i - buffer->begin].in_flight = true;
}

void copy_arrives(void* to, int bytes) {
  if (!active) return;
  Buffer* buffer = buffer_of((char*)to);
  for (int i = 0; buffer && i < bytes; ++i) buffer->cells[(char*)to + i - buffer->begin].in_flight = false;
  checked(to, bytes, true);
}

}  // namespace emu::trace

using namespace emu::trace;

EMU_EXPORT void emu_set_tracing(bool value) { on = value; }

// Exact size of a buffer in global memory; others count with the size that the allocator gave them.
EMU_EXPORT void emu_set_bytes(const void* buffer, size_t bytes) { exact_bytes[buffer] = bytes; }
EMU_EXPORT void emu_forget_bytes() { exact_bytes.clear(); }

// Takes what was reported since the last call: a JSON object a line.
EMU_EXPORT const char* emu_take_reports() {
  static std::string taken;
  taken = std::move(reports);
  reports.clear();
  return taken.c_str();
}

// One request of the warp: the fewest wavefronts that can serve all rows.
EMU_EXPORT void emu_access_rows(const void* from, int row_bytes, int rows, size_t stride, bool write) {
  if (!active) return;
  std::vector<Event> found;
  for (int row = 0; row < rows; ++row) {
    const char* at = (const char*)from + row * stride;
    if (Buffer* buffer = checked(at, row_bytes, write))
      found.push_back({nullptr, device_address(*buffer, at), (uint32_t)row_bytes, write, buffer->global, true});
  }
  if (found.empty() || block != 0) return;
  bool global = found.front().global;
  Traffic of{1, (uint64_t)row_bytes * rows};
  if (global) of.sectors = pieces_of(found, kSector), of.lines = pieces_of(found, kLine);
  else of.wavefronts = fewest_wavefronts(found);
  traffic[global][write] += of;
  if (!global && !write) shared_loads_once += of;
}

#define EMU_HOOK(bytes)                                                                                             \
  EMU_EXPORT void __tsan_read##bytes(void* at) { access(at, bytes, false, __builtin_return_address(0)); }           \
  EMU_EXPORT void __tsan_write##bytes(void* at) { access(at, bytes, true, __builtin_return_address(0)); }           \
  EMU_EXPORT void __tsan_unaligned_read##bytes(void* at) { access(at, bytes, false, __builtin_return_address(0)); } \
  EMU_EXPORT void __tsan_unaligned_write##bytes(void* at) { access(at, bytes, true, __builtin_return_address(0)); }
EMU_HOOK(1)
EMU_HOOK(2)
EMU_HOOK(4)
EMU_HOOK(8)
EMU_HOOK(16)
EMU_EXPORT void __tsan_read_range(void* at, size_t bytes) { access(at, bytes, false, __builtin_return_address(0)); }
EMU_EXPORT void __tsan_write_range(void* at, size_t bytes) { access(at, bytes, true, __builtin_return_address(0)); }
EMU_EXPORT void __tsan_func_entry(void*) {}
EMU_EXPORT void __tsan_func_exit() {}
EMU_EXPORT void __tsan_init() {}

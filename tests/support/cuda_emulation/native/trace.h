// Tracer of one launch: races, overruns, and what each warp of the first block asks of the memory system.
#pragma once
#include <cstddef>
#include <cstdint>
#include "emulation.h"

namespace emu::trace {

// Starts a launch. Nothing is recorded unless tracing is on.
void begin(const Launch& launch, char* dynamic);
void next_block(int number);
// A barrier of the block: what was written before it may be read after it.
void barrier();
// A barrier of one warp.
void warp_barrier(int warp);
// Adds the launch to the report. `failure` is null, or what the launch stopped at.
void end(uint64_t barriers, const char* failure);

// An asynchronous copy: its target may be touched by nobody until it has arrived.
void copy_starts(void* to, const void* from, int bytes, const void* site);
void copy_arrives(void* to, int bytes);

}  // namespace emu::trace

// Parts of the runtime that the tracer uses.
#pragma once
#include "emulation.h"

namespace emu {

// Thread that runs, by its number in the block.
int running_thread();
bool on_running_stack(const void* address);
// Ends the launch from within a thread, as an illegal access does on a device.
[[noreturn]] void stop_launch(const char* reason);

}  // namespace emu

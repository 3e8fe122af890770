// Stands in for NVIDIA's driver library where a process asks it for the name of its devices.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#define DRIVER extern "C" __attribute__((visibility("default"))) int

DRIVER cuInit(unsigned) { return 0; }

// The devices of CUDA_VISIBLE_DEVICES, one without it.
DRIVER cuDeviceGetCount(int* count) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  *count = !visible || *visible;
  for (; visible && *visible; ++visible) *count += *visible == ',';
  return 0;
}

DRIVER cuDeviceGet(int* device, int index) { return *device = index, 0; }

DRIVER cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, bytes, "emulated CUDA device");
  return 0;
}

DRIVER cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = size_t(1) << 30, 0; }

DRIVER cuDeviceGetAttribute(int* value, int, int) { return *value = 1, 0; }

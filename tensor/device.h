// Device: where memory lies. A value, not a handle: what owns the memory and the kernels is a Backend.
#ifndef ARMATURE_TENSOR_DEVICE_H_
#define ARMATURE_TENSOR_DEVICE_H_

#include <cstdint>
#include <ostream>

namespace armature {

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int ordinal = 0;

  friend bool operator==(const Device& a, const Device& b) {
    return a.kind == b.kind && a.ordinal == b.ordinal;
  }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }
  // "cpu", "cuda:1".
  friend std::ostream& operator<<(std::ostream& out, const Device& device) {
    if (device.kind == Kind::kCpu) return out << "cpu";
    return out << "cuda:" << device.ordinal;
  }
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_DEVICE_H_

#include "armature/optim/testing/goldens.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include "nlohmann/json.hpp"

namespace armature {

std::map<std::string, std::vector<float>> ReadGoldens(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) return {};
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const std::string header = bytes.substr(sizeof(header_size), header_size);
  const std::string data = bytes.substr(sizeof(header_size) + header_size);

  const nlohmann::json entries = nlohmann::json::parse(header);
  std::map<std::string, std::vector<float>> arrays;
  for (const auto& entry : entries.items()) {
    if (entry.key() == "__metadata__") continue;
    const size_t begin = entry.value()["data_offsets"][0], end = entry.value()["data_offsets"][1];
    std::vector<float>& values = arrays[entry.key()];
    values.resize((end - begin) / sizeof(float));
    std::memcpy(values.data(), data.substr(begin, end - begin).data(), end - begin);
  }
  return arrays;
}

}  // namespace armature

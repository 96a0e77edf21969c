// ReadGoldens: the f32 arrays of a small safetensors file that the test itself brings.
#ifndef ARMATURE_OPTIM_TESTING_GOLDENS_H_
#define ARMATURE_OPTIM_TESTING_GOLDENS_H_

#include <map>
#include <string>
#include <vector>

namespace armature {

// By name; empty if the file can't be read. `path` is relative to the workspace.
std::map<std::string, std::vector<float>> ReadGoldens(const std::string& path);

}  // namespace armature

#endif  // ARMATURE_OPTIM_TESTING_GOLDENS_H_

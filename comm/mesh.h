// Mesh: the ranks of a training as a grid, world = pipeline x data x context x tensor, tensor fastest: the
// ranks that talk most are neighbours. Expert parallelism folds into data.
//
//   const MeshShape shape = {/*pipeline=*/2, /*data=*/2, /*context=*/1, /*tensor=*/2};
//   ARMATURE_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(shape, std::move(world)));
//   mesh->axis(Axis::kTensor).AllReduce(view, ReduceOp::kSum);
//
// Rank 5 of the mesh above has pipeline 1, data 0, context 0, tensor 1.
#ifndef ARMATURE_COMM_MESH_H_
#define ARMATURE_COMM_MESH_H_

#include <array>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/comm/communicator.h"

namespace armature {
namespace comm {

// Slowest to fastest.
enum class Axis { kPipeline, kData, kContext, kTensor };
inline constexpr int kNumAxes = 4;
inline constexpr Axis kAllAxes[] = {Axis::kPipeline, Axis::kData, Axis::kContext, Axis::kTensor};

// "pipeline", "data", "context", "tensor".
absl::string_view Name(Axis axis);

// How many ranks along each axis.
struct MeshShape {
  int pipeline = 1;
  int data = 1;
  int context = 1;
  int tensor = 1;

  int size(Axis axis) const;
  int64_t world() const { return int64_t{1} * pipeline * data * context * tensor; }
  // "pipeline 2 x data 2 x context 1 x tensor 2".
  std::string ToString() const;
};
std::ostream& operator<<(std::ostream& out, const MeshShape& shape);

// A rank's place on each axis.
using MeshCoordinates = std::array<int, kNumAxes>;

// Both are plain arithmetic; `rank` in [0, shape.world()).
MeshCoordinates CoordinatesOf(const MeshShape& shape, int rank);
int RankAt(const MeshShape& shape, const MeshCoordinates& coordinates);

// One rank's view. Thread-compatible.
class Mesh {
 public:
  // A collective over `world`, which the mesh keeps.
  // Errors: InvalidArgument, with the numbers and their product, if an extent is < 1 or the product is not
  // the size of the world; whatever splitting the world returns.
  static absl::StatusOr<std::unique_ptr<Mesh>> Create(const MeshShape& shape,
                                                      std::unique_ptr<Communicator> world);

  const MeshShape& shape() const { return shape_; }
  Communicator& world() const { return *world_; }
  // The group of the ranks that differ from this one only on `axis`, in its order. A group of one is a real
  // one.
  Communicator& axis(Axis axis) const { return *groups_[static_cast<int>(axis)]; }
  // data x context: the ranks that hold the same weights, and share the sum of their gradients.
  Communicator& replicas() const { return *replicas_; }
  int coordinate(Axis axis) const { return coordinates_[static_cast<int>(axis)]; }

  // "rank 5 of pipeline 2 x data 2 x context 1 x tensor 2: pipeline 1, data 0, context 0, tensor 1".
  std::string ToString() const;

  // Aborts the world and every group of this rank.
  void Abort(const absl::Status& why);

 private:
  Mesh(const MeshShape& shape, std::unique_ptr<Communicator> world);
  absl::Status MakeGroups();

  const MeshShape shape_;
  const std::unique_ptr<Communicator> world_;
  const MeshCoordinates coordinates_;
  std::array<std::unique_ptr<Communicator>, kNumAxes> groups_;
  std::unique_ptr<Communicator> replicas_;
};

inline std::ostream& operator<<(std::ostream& out, const Mesh& mesh) { return out << mesh.ToString(); }

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_MESH_H_

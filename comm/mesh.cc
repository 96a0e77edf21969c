#include "armature/comm/mesh.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace comm {
namespace {

std::string DescribeCoordinates(const MeshCoordinates& coordinates) {
  std::vector<std::string> parts;
  for (Axis axis : kAllAxes)
    parts.push_back(absl::StrCat(Name(axis), " ", coordinates[static_cast<int>(axis)]));
  return absl::StrJoin(parts, ", ");
}

// The lowest rank with the same coordinates on all other axes: one number for each group.
int GroupColor(const MeshShape& shape, MeshCoordinates coordinates, std::initializer_list<Axis> inside) {
  for (Axis axis : inside) coordinates[static_cast<int>(axis)] = 0;
  return RankAt(shape, coordinates);
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(Communicator& world, const MeshShape& shape,
                                                        const MeshCoordinates& coordinates,
                                                        absl::string_view name,
                                                        std::initializer_list<Axis> inside) {
  const int color = GroupColor(shape, coordinates, inside);
  return world.Split(color, world.rank(), absl::StrCat(name, " group of rank ", color));
}

}  // namespace

absl::string_view Name(Axis axis) {
  constexpr absl::string_view kNames[] = {"pipeline", "data", "context", "tensor"};
  return kNames[static_cast<int>(axis)];
}

int MeshShape::size(Axis axis) const {
  const int sizes[] = {pipeline, data, context, tensor};
  return sizes[static_cast<int>(axis)];
}

std::string MeshShape::ToString() const {
  return absl::StrCat("pipeline ", pipeline, " x data ", data, " x context ", context, " x tensor ", tensor);
}

std::ostream& operator<<(std::ostream& out, const MeshShape& shape) { return out << shape.ToString(); }

MeshCoordinates CoordinatesOf(const MeshShape& shape, int rank) {
  MeshCoordinates coordinates = {};
  for (int axis = kNumAxes - 1; axis >= 0; --axis) {
    const int size = shape.size(static_cast<Axis>(axis));
    coordinates[axis] = rank % size;
    rank /= size;
  }
  return coordinates;
}

int RankAt(const MeshShape& shape, const MeshCoordinates& coordinates) {
  int rank = 0;
  for (int axis = 0; axis < kNumAxes; ++axis)
    rank = rank * shape.size(static_cast<Axis>(axis)) + coordinates[axis];
  return rank;
}

Mesh::Mesh(const MeshShape& shape, std::unique_ptr<Communicator> world)
    : shape_(shape), world_(std::move(world)), coordinates_(CoordinatesOf(shape, world_->rank())) {}

absl::StatusOr<std::unique_ptr<Mesh>> Mesh::Create(const MeshShape& shape,
                                                   std::unique_ptr<Communicator> world) {
  for (Axis axis : kAllAxes) {
    if (shape.size(axis) >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("mesh of ", shape.ToString(), ": ", Name(axis), " must be >= 1"));
  }
  if (shape.world() != world->size()) {
    return absl::InvalidArgumentError(absl::StrCat("mesh of ", shape.ToString(), " has ", shape.world(),
                                                   " ranks, and the world has ", world->size()));
  }
  std::unique_ptr<Mesh> mesh(new Mesh(shape, std::move(world)));
  ARMATURE_RETURN_IF_ERROR(mesh->MakeGroups(), "mesh of ", shape.ToString());
  return mesh;
}

absl::Status Mesh::MakeGroups() {
  for (Axis axis : kAllAxes) {
    ARMATURE_ASSIGN_OR_RETURN(groups_[static_cast<int>(axis)],
                              MakeGroup(*world_, shape_, coordinates_, Name(axis), {axis}));
  }
  ARMATURE_ASSIGN_OR_RETURN(
      replicas_, MakeGroup(*world_, shape_, coordinates_, "replica", {Axis::kData, Axis::kContext}));
  return absl::OkStatus();
}

std::string Mesh::ToString() const {
  return absl::StrCat("rank ", world_->rank(), " of ", shape_.ToString(), ": ",
                      DescribeCoordinates(coordinates_));
}

void Mesh::Abort(const absl::Status& why) {
  world_->Abort(why);
  for (const auto& group : groups_) group->Abort(why);
  replicas_->Abort(why);
}

}  // namespace comm
}  // namespace armature

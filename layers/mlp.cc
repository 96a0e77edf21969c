#include "armature/layers/mlp.h"

#include <utility>

namespace armature {
namespace {

LinearOptions Up(const MlpOptions& options) {
  LinearOptions up;
  up.in = options.hidden;
  up.out = options.inner > 0 ? options.inner : 4 * options.hidden;
  up.activation = options.activation;
  up.init = options.init;
  return up;
}

LinearOptions Down(const MlpOptions& options) {
  LinearOptions down = Up(options);
  std::swap(down.in, down.out);
  down.activation = Activation::kNone;
  down.init = options.projection_init;
  return down;
}

}  // namespace

Mlp::Mlp(ModuleBuilder builder, const MlpOptions& options)
    : up_(builder.Scope(options.up_name), Up(options)),
      down_(builder.Scope(options.down_name), Down(options)) {}

}  // namespace armature

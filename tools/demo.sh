#!/usr/bin/env bash
# The main job: a GPT of 5 million parameters on the King James Bible, trained, saved and sampled on this machine.
# Started by `./dev demo`; everything it writes lies under .demo/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bazel --output_user_root="$PWD/.bazel" build --noshow_progress //tools:armature
armature=.bazel/bin/tools/armature

mkdir -p .demo
if [ ! -f .demo/train.tokens ]; then
  bible -f gen1:1-rev22:21 >.demo/kjv.txt
  "$armature" prepare .demo/kjv.txt --train=.demo/train.tokens --validation=.demo/validation.tokens \
    --validation-fraction=0.02
fi
"$armature" train --config=examples/kjv.textproto
echo '--- 200 characters of the trained model:'
"$armature" sample --config=examples/kjv.textproto --prompt='In the beginning' --length=200
echo "--- to go on where it stopped, with more steps:"
echo "$armature train --config=examples/kjv.textproto --set max_steps=2400 --set engine.learning_rate.total_steps=2400"

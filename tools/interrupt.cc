#include "armature/tools/interrupt.h"

#include <csignal>

namespace armature {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void OnSignal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
}

bool Interrupted() { return interrupted != 0; }

}  // namespace armature

// Ctrl-C: the first SIGINT or SIGTERM asks for an end, the second one ends the process at once. Programs
// install handlers; the library never does.
#ifndef ARMATURE_TOOLS_INTERRUPT_H_
#define ARMATURE_TOOLS_INTERRUPT_H_

namespace armature {

void CatchInterrupts();
// True once the first signal has come.
bool Interrupted();

}  // namespace armature

#endif  // ARMATURE_TOOLS_INTERRUPT_H_

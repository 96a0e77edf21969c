// NoSigpipe: while it lives, writing to a closed connection raises no signal in this thread, nor in threads
// that it starts. Gloo writes without MSG_NOSIGNAL, and a library may not touch the handlers of its host's
// process.
#ifndef ARMATURE_COMM_GLOO_NO_SIGPIPE_H_
#define ARMATURE_COMM_GLOO_NO_SIGPIPE_H_

#include <signal.h>

#include <ctime>

namespace armature {
namespace comm {

class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec now = {};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);  // what came meanwhile is ours
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GLOO_NO_SIGPIPE_H_

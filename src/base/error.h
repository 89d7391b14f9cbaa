// How the program fails: one exception type that carries the process exit code of DESIGN §2.
#pragma once

#include <stdexcept>
#include <string>

namespace athanor {

/// Exit codes of the program. The warden's decisions start from these, so they never change meaning.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,      ///< the command line or the config is wrong
  kData = 3,       ///< input data, a model or a checkpoint is damaged or does not fit
  kPeer = 4,       ///< a peer or the network failed
  kNumbers = 5,    ///< NaN, divergence
  kResources = 6,  ///< out of memory or disk
  kStopped = 7,    ///< stopped by a signal, resumable
  kBug = 70,       ///< a bug of ours
};

/// An error for a person: one line that says what, where, and how to mend it; no words where another rank has said them.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

inline Error usage_error(const std::string& message) { return {ExitCode::kUsage, message}; }
inline Error data_error(const std::string& message) { return {ExitCode::kData, message}; }
inline Error numbers_error(const std::string& message) { return {ExitCode::kNumbers, message}; }
inline Error resource_error(const std::string& message) { return {ExitCode::kResources, message}; }
inline Error bug(const std::string& message) { return {ExitCode::kBug, message}; }

/// Throws a bug(70) with `what` when an invariant that callers must keep does not hold.
inline void require(bool condition, const char* what) {
  if (!condition) throw bug(what);
}

/// The Error for a failed system call: ENOSPC, EDQUOT, EFBIG and ENOMEM are kResources, everything else `otherwise`.
/// The message is "<action> <path>: <strerror>".
Error system_error(int error_number, const std::string& action, const std::string& path,
                   ExitCode otherwise);

}  // namespace athanor

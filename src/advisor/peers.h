// Other libraries' matrix products, measured by turns with ours.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace athanor::advisor {

/// y [t, n] = x [t, k] · wᵀ with w packed beforehand; or, `outer`, dw [n, k] += dyᵀ · x of dy [t, n] and
/// x [t, k] as they lie. Results in fp32.
struct PeerProduct {
  DType dtype = DType::kF32;
  bool outer = false;
  int64_t t = 0, n = 0, k = 0;
};

/// `athanor-bench-peers` beside this program (bench/peers): a process that computes one product when
/// asked and sleeps otherwise, so that no peer's code or threads are in ours.
class PeerProcess {
 public:
  /// Starts it. Throws kUsage where it was not built, kPeer when it does not answer.
  PeerProcess();
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// "oneDNN 2.6.3".
  const std::string& name() const { return name_; }
  /// Seconds that it took once. Throws kPeer.
  double product_seconds(const PeerProduct& product);

 private:
  void stop();
  std::string read_line();

  int child_ = -1;
  int socket_ = -1;  ///< our end of its stdin and stdout
  std::string name_;
};

}  // namespace athanor::advisor

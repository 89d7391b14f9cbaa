// One rank of a launch, for tests: does what its arguments say, and ends with the program's exit codes.
//   rank_program exchange         every rank sends to every other, over odd sizes and both tags; all bytes are compared
//   rank_program truncated        rank 0 sends less than rank 1 expects
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/launcher.h"
#include "comm/mpi_loader.h"

namespace athanor::comm {
namespace {

/// A byte that tells sender, receiver, tag and place.
std::byte byte_of(int from, int to, int tag, size_t i) {
  return static_cast<std::byte>(i * 7 + i / 251 +
                                static_cast<size_t>(from * 31 + to * 17 + tag * 5));
}

/// All transfers of all pairs at once; two under the same tag must come in the order they were sent.
void exchange(Transport& transport, size_t bytes) {
  const int me = transport.rank();
  struct Pair {
    std::vector<std::byte> out, in;
    int peer, tag;
  };
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<Transport::Transfer> open;
  for (int peer = 0; peer < transport.size(); ++peer) {
    for (const int tag : {0, 1, 0, 4 * Communicator::kTags}) {
      auto pair = std::make_unique<Pair>();
      pair->peer = peer;
      pair->tag =
          tag + static_cast<int>(pairs.size() % 4 == 2);  // the third differs in content alone
      pair->out.resize(bytes);
      pair->in.resize(bytes);
      for (size_t i = 0; i < bytes; ++i) pair->out[i] = byte_of(me, peer, pair->tag, i);
      open.push_back(transport.receive(pair->in, peer, tag));
      open.push_back(transport.send(pair->out, peer, tag));
      pairs.push_back(std::move(pair));
    }
  }
  while (!open.empty()) {
    std::erase_if(open, [&](Transport::Transfer transfer) { return transport.ended(transfer); });
  }
  for (const auto& pair : pairs) {
    for (size_t i = 0; i < bytes; ++i) {
      if (pair->in[i] == byte_of(pair->peer, me, pair->tag, i)) continue;
      throw bug("byte " + std::to_string(i) + " of " + std::to_string(bytes) + " from rank " +
                std::to_string(pair->peer) + " is wrong");
    }
  }
}

void truncated(Transport& transport) {
  std::vector<std::byte> bytes(64);
  const std::span<std::byte> span(bytes);
  const Transport::Transfer transfer =
      transport.rank() == 0 ? transport.send(span.first(63), 1, 3) : transport.receive(span, 0, 3);
  while (!transport.ended(transfer)) {
  }
}

int run(const std::string& what) {
  const Launch launch = find_launch();
  require(launch.many(), "started without a launcher");
  const std::unique_ptr<Transport> transport = load_transport(launch);
  if (what == "exchange") {
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{1023}, size_t{65537}, size_t{3} << 20}) {
      exchange(*transport, bytes);
    }
    if (transport->rank() == 0) {
      std::printf("%d ranks over %s\n", transport->size(), transport->library().c_str());
    }
  } else if (what == "truncated") {
    truncated(*transport);
  }
  return 0;
}

}  // namespace
}  // namespace athanor::comm

int main(int argc, char** argv) {
  try {
    return athanor::comm::run(argc > 1 ? argv[1] : "");
  } catch (const athanor::Error& error) {
    std::fprintf(stderr, "athanor: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}

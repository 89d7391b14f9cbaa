// One rank of a launch, for tests: does what its arguments say, and ends with the program's exit codes.
//   rank_program exchange         every rank sends to every other, over odd sizes and both tags; all bytes are compared
//   rank_program truncated        rank 0 sends less than rank 1 expects
//   rank_program play [steps=N] [pause=MILLISECONDS] [limit=SECONDS] [folder=DIR] [at=RANK:PHASE:STEP:ACTION]…
//                                 parent and worker, steps and phases as in training; ACTION: kill-parent, loop, wait,
//                                 signal=N (raised), error=CODE (thrown), exit=CODE (at once); RANK −1 is every rank;
//                                 PHASE start, step 0, is before MPI
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "comm/communicator.h"
#include "comm/launcher.h"
#include "comm/mpi_loader.h"
#include "comm/parent.h"
#include "comm/worker.h"

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

void transport_alone(const std::string& what) {
  const Launch launch = find_launch();
  require(launch.many(), "started without a launcher");
  const std::unique_ptr<Transport> transport = load_transport(launch);
  if (what == "truncated") return truncated(*transport);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1023}, size_t{65537}, size_t{3} << 20}) {
    exchange(*transport, bytes);
  }
  if (transport->rank() == 0) {
    std::printf("%d ranks over %s\n", transport->size(), transport->library().c_str());
  }
}

/// "rank:phase:step:action": what one rank does instead of that phase of that step.
struct Deed {
  int rank;
  std::string phase;
  int step;
  std::string action;
};

struct Play {
  int steps = 20;
  double limit = 0;
  std::string folder;  ///< where each rank leaves a file rank-N: its pid and its parent's
  int milliseconds = 2;
  std::vector<Deed> deeds;
};

Play parse(int argc, char** argv) {
  Play play;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(word.find('=') + 1);
    if (word.starts_with("steps=")) play.steps = std::stoi(value);
    if (word.starts_with("limit=")) play.limit = std::stod(value);
    if (word.starts_with("pause=")) play.milliseconds = std::stoi(value);
    if (word.starts_with("folder=")) play.folder = value;
    if (word.starts_with("at=")) {
      Deed deed;
      std::stringstream in(value);
      std::string rank, step;
      std::getline(in, rank, ':');
      std::getline(in, deed.phase, ':');
      std::getline(in, step, ':');
      std::getline(in, deed.action);
      deed.rank = std::stoi(rank);
      deed.step = std::stoi(step);
      play.deeds.push_back(deed);
    }
  }
  return play;
}

void act(const std::string& action) {
  const std::string number = action.substr(action.find('=') + 1);
  if (action == "kill-parent") {
    kill(getppid(), SIGKILL);
    while (true) pause();
  } else if (action == "loop") {
    static std::atomic<uint64_t> rounds{0};
    while (true) ++rounds;
  } else if (action == "wait") {
    while (true) {
      Worker::self().pulse().waiting(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } else if (action.starts_with("signal=")) {
    raise(std::stoi(number));
  } else if (action.starts_with("error=")) {
    throw Error(static_cast<ExitCode>(std::stoi(number)), "told to end with " + number);
  } else if (action.starts_with("exit=")) {
    std::_Exit(std::stoi(number));
  }
}

std::atomic<int> stop_signal{0};
void on_stop(int number) {
  stop_signal = number;
  std::signal(number, SIG_DFL);
}

/// What a training run asks of its ranks, without the training: steps of phases, sums in some, a stop by agreement.
int play(const Play& play) {
  Worker& worker = Worker::self();
  Pulse& pulse = worker.pulse();
  const auto load = [&] { return load_transport(worker.launch()); };
  for (const Deed& deed : play.deeds) {
    if (deed.phase == "start" && deed.rank == worker.launch().rank) act(deed.action);
  }
  const std::unique_ptr<Communicator> communicator =
      worker.launch().many()
          ? std::make_unique<Communicator>(
                load, CommunicatorOptions{.pulse = std::shared_ptr<Pulse>(&pulse, [](Pulse*) {})})
          : std::make_unique<Communicator>();
  worker.meet(*communicator);
  if (play.limit > 0) worker.set_silence_limit(play.limit);
  const int me = communicator->rank();
  std::signal(SIGTERM, on_stop);
  std::signal(SIGINT, on_stop);
  if (!play.folder.empty()) {
    const fs::path path = fs::path(play.folder) / ("rank-" + std::to_string(me));
    write_file_atomically(path, std::to_string(getpid()) + " " + std::to_string(getppid()) + "\n");
  }
  const auto phase = [&](Phase which, int step) {
    pulse.enter(which, step);
    for (const Deed& deed : play.deeds) {
      const bool mine = deed.rank == me || deed.rank < 0;
      if (mine && deed.step == step && deed.phase == name_of(which)) act(deed.action);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(play.milliseconds));
    pulse.beat();
  };
  double stops = 0;
  const Tensor flag(&stops, DType::kF64, {1});
  int step = 1;
  for (; step <= play.steps && stops == 0; ++step) {
    for (const Phase which : {Phase::kData, Phase::kForward, Phase::kBackward}) phase(which, step);
    phase(Phase::kReduce, step);
    stops = stop_signal != 0 ? 1 : 0;
    communicator->all_reduce_sum(flag);
    phase(Phase::kOptimizer, step);
    phase(Phase::kGather, step);
    communicator->barrier();
  }
  phase(Phase::kSave, step);
  communicator->barrier();
  if (me == 0) std::printf("saved step %d\n", step - 1);
  std::fflush(stdout);
  if (stops != 0) {
    communicator->barrier();
    throw Error(ExitCode::kStopped, "stopped in order at step " + std::to_string(step - 1));
  }
  phase(Phase::kEnd, step);
  communicator->barrier();
  return 0;
}

int fail(ExitCode code, const std::string& message) {
  bool told = false;
  try {
    told = Worker::self().tell_failure(code, message);
  } catch (const Error&) {
    told = false;  // the launcher's variables make no sense, and the message says so
  }
  if (!told) {
    std::fprintf(stderr, "athanor: %s\n", message.c_str());
  }
  return static_cast<int>(code);
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "play") {
    transport_alone(what);
    return 0;
  }
  const Play wanted = parse(argc, argv);
  Worker& worker = Worker::self();
  if (worker.launch().many() && !worker.has_parent()) return run_parent(worker.launch());
  return play(wanted);
}

}  // namespace
}  // namespace athanor::comm

int main(int argc, char** argv) {
  try {
    return athanor::comm::run(argc, argv);
  } catch (const athanor::Error& error) {
    return athanor::comm::fail(error.code(), error.what());
  }
}
